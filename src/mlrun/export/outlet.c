#include "export/outlet.h"

#include "base/follow.h"
#include "layer/extract.h"

#include <archive_entry.h>
#include <sched.h>
#include <sys/file.h>

#define CHUNK      (256u << 10)
#define WORK_TRIES 100
#define STALE_S    60 /* its maker has locked it by then */

struct outlet {
	enum outlet_kind kind;
	char *path;
	int parent_fd;     /* the directory of work and name; -1 if nothing is renamed */
	char *work, *name; /* the temporary name, and the final one; a tree's content gets into the
			    * parent itself */
	int fd;            /* the archive's file or the directory */
	int back_fd;       /* a tree is the working directory: that to go back to; else -1 */
	struct archive *tar;
	int write_errno, is_given_up;
	struct strv dirs; /* made below the top, with their slash */
};

/* Split a path into its parent directory, opened, and a name. */
static int open_parent(struct outlet *o, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(o->path);
	size_t n = strlen(copy);
	char *slash;

	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	slash = strrchr(copy, '/');
	o->name = xstrdup(slash ? slash + 1 : copy);
	if (slash)
		slash[slash == copy] = '\0';
	o->parent_fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->parent_fd < 0)
		return mlr_fail_errno(err, "open directory '%s'", slash ? copy : ".");
	return 0;
}

/* Remove what killed exports of the same name have left: they hold no lock. */
static void sweep(const struct outlet *o)
{
	auto_free char *prefix = xasprintf(".%.200s.mlrun-", o->name);
	auto_strv struct strv names = STRV_INIT;
	struct stat st;

	if (file_list(o->parent_fd, ".", 0, &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];
		auto_close int fd = strncmp(name, prefix, strlen(prefix)) != 0
			? -1
			: openat(o->parent_fd, name,
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
			time(NULL) - st.st_mtime > STALE_S && flock(fd, LOCK_EX | LOCK_NB) == 0)
			file_remove_tree(o->parent_fd, name, NULL);
	}
}

/* Make the temporary file or directory, and open it. Nobody else enters a tree's, so that none of
 * its files can be exchanged for a link while others are written. */
static int make_work(struct outlet *o, struct mlr_error *err)
{
	static const int made = O_RDWR | O_CREAT | O_EXCL, entered = O_RDONLY | O_DIRECTORY;
	int is_dir = o->kind != OUTLET_TAR && o->kind != OUTLET_FILE;

	sweep(o);
	for (int i = 0;; i++) {
		auto_free char *work =
			xasprintf(".%.200s.mlrun-%ld.%d", o->name, (long)getpid(), i);

		if (!is_dir ||
			mkdirat(o->parent_fd, work, o->kind == OUTLET_TREE ? 0700 : 0777) == 0)
			o->fd = openat(o->parent_fd, work,
				(is_dir ? entered : made) | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (o->fd >= 0) {
			(void)flock(o->fd, LOCK_EX | LOCK_NB);
			o->work = take_ptr(&work);
			return 0;
		}
		if (errno != EEXIST || i == WORK_TRIES)
			return mlr_fail_errno(err, "create a %s beside '%s'",
				is_dir ? "directory" : "file", o->path);
	}
}

static int fail_not_empty(const struct outlet *o, struct mlr_error *err)
{
	mlr_fail(err, EEXIST, "'%s' is there and is not empty", o->path);
	return mlr_hint(err, "name a directory that is not there yet");
}

/* Is the existing directory empty? Checked before an hour of work instead of after it. */
static int check_dir(const struct outlet *o, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(o->parent_fd, o->name, O_NOFOLLOW);
	int n = 0;

	if (!d && errno == ENOENT)
		return 0;
	if (!d && (errno == ENOTDIR || errno == ELOOP))
		return mlr_fail(err, EEXIST, "'%s' exists and is not a directory", o->path);
	if (!d)
		return mlr_fail_errno(err, "open '%s'", o->path);
	while (readdir(d))
		n++;
	return n > 2 ? fail_not_empty(o, err) : 0; /* "." and ".." */
}

static int open_dir(struct outlet *o, struct mlr_error *err)
{
	TRY(open_parent(o, err));
	TRY(check_dir(o, err));
	return make_work(o, err);
}

/* Replace a symlink's target (/dev/stdout, for one), not the link. */
static int follow(struct outlet *o, struct mlr_error *err)
{
	char *real = NULL;
	int r = follow_real(o->path, &real, err);

	if (r < 0 || !real)
		return r;
	free(o->path);
	o->path = real;
	return 0;
}

static int fail_not_regular(const char *path, struct mlr_error *err)
{
	return mlr_fail(err, EINVAL,
		"'%s' is no regular file, and an image in one file is not written in one go from its "
		"beginning",
		strcmp(path, "-") == 0 ? "standard output" : path);
}

static int open_file(struct outlet *o, struct mlr_error *err)
{
	auto_free char *given = NULL;
	struct stat st;
	int there;

	if (strcmp(o->path, "-") == 0 && o->kind == OUTLET_FILE)
		return fail_not_regular(o->path, err);
	if (strcmp(o->path, "-") == 0) {
		o->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return o->fd < 0 ? mlr_fail_errno(err, "standard output") : 0;
	}
	given = xstrdup(o->path);
	TRY(follow(o, err));
	there = stat(given, &st) == 0;
	if (there && S_ISDIR(st.st_mode))
		return mlr_fail(err, EISDIR, "'%s' is a directory", given);
	if (there && !S_ISREG(st.st_mode) && o->kind == OUTLET_FILE)
		return fail_not_regular(given, err);
	if (there && !S_ISREG(st.st_mode)) {
		o->fd = open(given, O_WRONLY | O_CLOEXEC | O_NOCTTY); /* /dev/stdout stays a link */
		return o->fd < 0 ? mlr_fail_errno(err, "open '%s'", given) : 0;
	}
	TRY(open_parent(o, err));
	return make_work(o, err);
}

/* Always report success to libarchive: it leaks an archive's memory if writing fails. Drop the end
 * of an unfinished archive, which would make it look complete. */
static la_ssize_t drain(struct archive *a, void *ctx, const void *buf, size_t len)
{
	struct outlet *o = ctx;

	if (o->write_errno == 0 && !o->is_given_up)
		o->write_errno = -file_write_all(o->fd, buf, len);
	return (la_ssize_t)len;
}

int outlet_check(struct outlet *o, int r, struct mlr_error *err)
{
	const char *to = strcmp(o->path, "-") == 0 ? "standard output" : o->path;
	const char *why = archive_error_string(o->tar);

	if (o->write_errno)
		return mlr_fail(
			err, o->write_errno, "write '%s': %s", to, strerror(o->write_errno));
	if (r < ARCHIVE_WARN)
		return mlr_fail(err, archive_errno(o->tar) > 0 ? archive_errno(o->tar) : EIO,
			"write '%s': %s", to, why ? why : "unknown failure");
	return 0;
}

/* Names beyond ASCII and sizes beyond 8 GiB need pax headers; other members are plain ustar. */
static int start_tar(struct outlet *o, struct mlr_error *err)
{
	o->tar = archive_write_new();
	if (!o->tar)
		return mlr_fail(err, ENOMEM, "write '%s': out of memory", o->path);
	archive_write_set_format_pax_restricted(o->tar);
	archive_write_add_filter_none(o->tar);
	archive_write_set_bytes_in_last_block(o->tar, 1);
	return outlet_check(o, archive_write_open(o->tar, o, NULL, drain, NULL), err);
}

/* libarchive writes by paths, which are relative to a directory that is open: others may exchange
 * those above it. */
static int open_tree(struct outlet *o, int keep_modes, struct mlr_error *err)
{
	TRY(file_mkdir_p(AT_FDCWD, o->path, 0777, err));
	TRY(follow(o, err));
	o->parent_fd = open(o->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (o->parent_fd < 0)
		return mlr_fail_errno(err, "open '%s'", o->path);
	o->name = xstrdup("");
	TRY(make_work(o, err));
	o->tar = layer_extract_new(keep_modes);
	o->back_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)unshare(CLONE_FS); /* where allowed, other threads keep their working directory */
	return o->back_fd < 0 || fchdir(o->fd) < 0 ? mlr_fail_errno(err, "enter '%s'", o->path) : 0;
}

int outlet_open(const char *path, enum outlet_kind kind, int keep_modes, struct outlet **ret,
	struct mlr_error *err)
{
	auto_call(outlet_cleanup) struct outlet *o = xcalloc(1, sizeof(*o));

	o->kind = kind;
	o->path = xstrdup(path);
	o->parent_fd = o->fd = o->back_fd = -1;
	TRY(kind == OUTLET_DIR                ? open_dir(o, err)
			: kind == OUTLET_TREE ? open_tree(o, keep_modes, err)
					      : open_file(o, err));
	if (kind == OUTLET_TAR)
		TRY(start_tar(o, err));
	*ret = take_ptr(&o);
	return 0;
}

int outlet_fd(const struct outlet *o)
{
	return o->fd;
}

struct archive *outlet_archive(struct outlet *o)
{
	return o->tar;
}

static int tar_member(
	struct outlet *o, const char *name, mode_t type, uint64_t size, struct mlr_error *err)
{
	struct archive_entry *e = archive_entry_new();
	int r;

	if (!e)
		return mlr_fail(err, ENOMEM, "write '%s': out of memory", o->path);
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, type);
	archive_entry_set_perm(e, type == AE_IFDIR ? 0755 : 0644);
	archive_entry_set_size(e, (la_int64_t)size);
	archive_entry_set_mtime(e, 0, 0); /* so that the same image gives the same file */
	r = archive_write_header(o->tar, e);
	archive_entry_free(e);
	return outlet_check(o, r, err);
}

/* Directories are members, before their contents: skopeo makes missing ones as root's, which fails
 * for other users. */
static int tar_header(struct outlet *o, const char *name, uint64_t size, struct mlr_error *err)
{
	for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_free char *dir = xstrndup(name, (size_t)(slash + 1 - name));

		TRY(strv_has(&o->dirs, dir) ? 0 : tar_member(o, dir, AE_IFDIR, 0, err));
		if (!strv_has(&o->dirs, dir))
			strv_add(&o->dirs, dir);
	}
	return tar_member(o, name, AE_IFREG, size, err);
}

static int tar_data(struct outlet *o, const void *buf, size_t len, struct mlr_error *err)
{
	la_ssize_t n = archive_write_data(o->tar, buf, len);

	return outlet_check(o, n == (la_ssize_t)len ? ARCHIVE_OK : ARCHIVE_FATAL, err);
}

static int make_file(struct outlet *o, const char *name, struct mlr_error *err)
{
	int fd;

	for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_free char *dir = xstrndup(name, (size_t)(slash + 1 - name));

		if (strv_has(&o->dirs, dir))
			continue;
		if (mkdirat(o->fd, dir, 0777) < 0 && errno != EEXIST)
			return mlr_fail_errno(err, "make '%s/%s'", o->path, dir);
		strv_take(&o->dirs, take_ptr(&dir));
	}
	fd = openat(o->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	return fd < 0 ? mlr_fail_errno(err, "create '%s/%s'", o->path, name) : fd;
}

static int write_file(struct outlet *o, const char *name, int to, const void *buf, size_t len,
	struct mlr_error *err)
{
	return mlr_result(err, file_write_all(to, buf, len), "write '%s/%s'", o->path, name);
}

static int sync_file(struct outlet *o, const char *name, int fd, struct mlr_error *err)
{
	return fsync(fd) < 0 ? mlr_fail_errno(err, "sync '%s/%s'", o->path, name) : 0;
}

int outlet_put(
	struct outlet *o, const char *name, const void *buf, size_t len, struct mlr_error *err)
{
	auto_close int to = -1;
	int r;

	if (o->kind == OUTLET_TAR) {
		r = tar_header(o, name, len, err);
		return r < 0 ? r : tar_data(o, buf, len, err);
	}
	r = to = make_file(o, name, err);
	if (r >= 0)
		r = write_file(o, name, to, buf, len, err);
	return r < 0 ? r : sync_file(o, name, to, err);
}

int outlet_put_fd(struct outlet *o, const char *name, int fd, uint64_t size, struct mlr_error *err)
{
	auto_free char *buf = malloc(CHUNK);
	auto_close int to = -1;
	int r = 0;

	if (!buf)
		return mlr_fail(err, ENOMEM, "write '%s': out of memory", o->path);
	if (o->kind == OUTLET_TAR)
		r = tar_header(o, name, size, err);
	else
		r = to = make_file(o, name, err);
	for (uint64_t at = 0; r >= 0 && at < size;) {
		ssize_t n = TEMP_FAILURE_RETRY(
			pread(fd, buf, size - at < CHUNK ? (size_t)(size - at) : CHUNK, (off_t)at));

		if (n <= 0)
			return mlr_fail(err, n < 0 ? errno : EIO, "read what goes to '%s': %s",
				name, n < 0 ? strerror(errno) : "it became shorter");
		at += (uint64_t)n;
		r = to < 0 ? tar_data(o, buf, (size_t)n, err)
			   : write_file(o, name, to, buf, (size_t)n, err);
	}
	return r < 0 || to < 0 ? (r < 0 ? r : 0) : sync_file(o, name, to, err);
}

/* Sync the directories made below the top, so that their names last. */
static int sync_dirs(const struct outlet *o, struct mlr_error *err)
{
	for (size_t i = 0; o->kind == OUTLET_DIR && i < o->dirs.n; i++) {
		auto_close int fd = openat(
			o->fd, o->dirs.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 || fsync(fd) < 0)
			return mlr_fail_errno(err, "sync '%s/%s'", o->path, o->dirs.v[i]);
	}
	return 0;
}

static int publish(struct outlet *o, struct mlr_error *err)
{
	TRY(sync_dirs(o, err));
	if (fsync(o->fd) < 0 && errno != EINVAL)
		return mlr_fail_errno(err, "sync '%s'", o->path);
	if (renameat(o->parent_fd, o->work, o->parent_fd, o->name) < 0) {
		if (errno == ENOTEMPTY || errno == EEXIST)
			return fail_not_empty(o, err);
		return mlr_fail_errno(err, "rename to '%s'", o->path);
	}
	free(take_ptr(&o->work));
	fsync(o->parent_fd);
	return 0;
}

/* Move a directory, which without its owner's rights would keep its "..". */
static int move_directory(int from, const char *name, const struct stat *st, int to)
{
	int lent, fd = file_open_readable(from, name, st, &lent, NULL), r = fd < 0 ? fd : 0;

	if (r == 0 && !(st->st_mode & S_IWUSR))
		r = fchmod(fd, 0700) < 0 ? -errno : 0;
	if (r == 0 && renameat(from, name, to, name) < 0)
		r = -errno;
	if (fd >= 0) {
		file_take_back(fd, st);
		close(fd);
	}
	return r;
}

/* Move what is in one directory into another, which keeps what else it has; no link is followed. */
static int move_content(int from, int to, const char *where, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	int r;

	TRY(mlr_result(
		err, file_list(from, ".", 0, &names), "list what was written for '%s'", where));
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("%s/%s", where, names.v[i]);
		const char *name = names.v[i];
		auto_close int there = -1, here = -1;
		struct stat st;
		int lent = 0;

		if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return mlr_fail_errno(err, "look at '%s'", path);
		if (S_ISDIR(st.st_mode)) {
			there = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (there < 0 && (errno == ENOTDIR || errno == ELOOP))
				unlinkat(to, name, 0);
		}
		if (there >= 0)
			r = here = file_open_readable(from, name, &st, &lent, NULL);
		else if (S_ISDIR(st.st_mode))
			r = move_directory(from, name, &st, to);
		else
			r = renameat(from, name, to, name) < 0 ? -errno : 0;
		if (r < 0)
			return mlr_result(err, r, "write '%s'", path);
		if (there >= 0)
			TRY(move_content(here, there, path, err));
	}
	return 0;
}

int outlet_finish(struct outlet *o, struct mlr_error *err)
{
	TRY(o->tar ? outlet_check(o, archive_write_close(o->tar), err) : 0);
	if (o->kind == OUTLET_TREE)
		return move_content(o->fd, o->parent_fd, o->path, err);
	return o->work ? publish(o, err) : 0;
}

void outlet_free(struct outlet *o)
{
	if (!o)
		return;
	if (o->tar) {
		o->is_given_up = 1;
		archive_write_free(o->tar);
	}
	if (o->back_fd >= 0) {
		(void)!fchdir(o->back_fd);
		close(o->back_fd);
	}
	fd_close(&o->fd);
	if (o->work)
		file_remove_tree(o->parent_fd, o->work, NULL);
	fd_close(&o->parent_fd);
	strv_done(&o->dirs);
	free(o->work);
	free(o->name);
	free(o->path);
	free(o);
}
