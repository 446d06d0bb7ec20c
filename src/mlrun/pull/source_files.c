/* Opens the files that a name refers to, and detects their kind. */

#include "pull/bundle.h"

static int has(struct files *f, const char *name)
{
	auto_call(files_part_done) struct files_part p = FILES_PART_INIT;

	return files_find(f, name, &p, NULL) == 0;
}

static enum oci_transport detect(struct files *f, int is_dir)
{
	if (has(f, "oci-layout") && has(f, "index.json"))
		return is_dir ? OCI_LAYOUT : OCI_ARCHIVE;
	if (has(f, "manifest.json"))
		return OCI_DOCKER_ARCHIVE;
	return OCI_ANY_FILE;
}

static int open_path(const struct oci_name *name, struct stat *st, struct mlr_error *err)
{
	int is_stdin = strcmp(name->path, "-") == 0;
	auto_close int fd = -1;

	if (is_stdin && isatty(STDIN_FILENO)) {
		mlr_fail(err, EINVAL, "an archive is nothing that is typed");
		return mlr_hint(err, "redirect standard input, or name a file");
	}
	if (is_stdin)
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = open(name->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s'", name->path);
	if (fstat(fd, st) < 0)
		return mlr_fail_errno(err, "stat '%s'", name->path);
	if (S_ISDIR(st->st_mode)
			? name->transport == OCI_ARCHIVE || name->transport == OCI_DOCKER_ARCHIVE
			: name->transport == OCI_LAYOUT) {
		mlr_fail(err, S_ISDIR(st->st_mode) ? EISDIR : ENOTDIR, "'%s' is %s directory",
			name->path, S_ISDIR(st->st_mode) ? "a" : "not a");
		return mlr_hint(err, "oci:DIRECTORY, oci-archive:FILE, docker-archive:FILE");
	}
	return take_fd(&fd);
}

/* Anything else: a tar of a root directory. */
static int open_rootfs(int fd, const struct oci_name *name, const struct source_files_options *opt,
	struct pull_source **ret, struct mlr_error *err)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		mlr_fail(err, ENOTSUP, "'%s' is not an OCI layout", name->path);
		return mlr_hint(err,
			"mlrun exec rootfs:%s runs in a plain directory; tar -C %s -c . | mlrun "
			"import - NAME makes an image of it",
			name->path, name->path);
	}
	mlr_debug("'%s' is a tar of a root directory", name->path);
	return pull_bundle_rootfs(fd, opt->want, opt->plain, ret, err);
}

/* Refuse other formats, and name them. SIF: sylabs/sif, docs, "Global header". */
static int refuse_others(int fd, const struct oci_name *name, struct mlr_error *err)
{
	char magic[32 + 9] = "";
	ssize_t n = pread(fd, magic, sizeof(magic), 0);

	if (n == sizeof(magic) && memcmp(magic + 32, "SIF_MAGIC", 9) == 0) {
		mlr_fail(err, ENOTSUP, "'%s' is an image of Apptainer's, a SIF file", name->path);
		return mlr_hint(err, "mlrun exec sif:%s runs it as it is", name->path);
	}
	if (n < 4 || memcmp(magic, "hsqs", 4) != 0)
		return 0;
	mlr_fail(err, ENOTSUP, "'%s' is a squashfs image", name->path);
	return mlr_hint(err, "mlrun exec squashfs:%s runs it as it is", name->path);
}

/* fd holds decompressed bytes or is a directory. A root directory's tar may have more members than
 * an archive of an image; if it is not a tar, unpacking fails. */
static int open_plain(int fd, const struct oci_name *name, const struct source_files_options *opt,
	struct pull_source **ret, char **said, struct mlr_error *err)
{
	auto_call(files_cleanup) struct files *files = NULL;
	struct bundle b = { NULL, name->which, opt->want, opt->plain };
	enum oci_transport kind = name->transport;
	struct stat st;
	int r = refuse_others(fd, name, err);

	if (r == 0)
		r = files_open_fd(fd, opt->plain, &files, err);
	if (r < 0 && !(r == -EFBIG && kind == OCI_ANY_FILE))
		return r;
	if (kind == OCI_ANY_FILE && files)
		kind = detect(files, fstat(fd, &st) == 0 && S_ISDIR(st.st_mode));
	if (kind == OCI_ANY_FILE)
		return open_rootfs(fd, name, opt, ret, err);
	b.files = take_ptr(&files);
	r = kind == OCI_DOCKER_ARCHIVE ? pull_bundle_docker(&b, ret, said, err)
				       : pull_bundle_layout(&b, ret, said, err);
	files_free(b.files);
	return r;
}

int pull_source_files(const struct oci_name *name, const struct source_files_options *opt,
	struct pull_source **ret, struct oci_ref *stored, struct mlr_error *err)
{
	auto_free char *said = NULL, *real = NULL;
	auto_close int fd = -1, plain = -1;
	struct stat st;
	int r;

	r = fd = open_path(name, &st, err);
	if (r >= 0 && !S_ISDIR(st.st_mode))
		r = plain = plain_open(fd, opt->plain, err);
	if (r >= 0)
		r = open_plain(plain < 0 ? fd : plain, name, opt, ret, &said, err);
	TRY(r);
	real = realpath(name->path, NULL);
	oci_name_stored(name->transport, real ? real : name->path, said, stored);
	return 0;
}
