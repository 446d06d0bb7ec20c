#include "layer/extract.h"

#include "layer/archive.h"
#include "layer/path.h"

struct archive *layer_extract_new(int keep_modes)
{
	struct archive *to = archive_write_disk_new();

	if (!to)
		mlr_oom();
	archive_write_disk_set_options(to,
		(keep_modes ? ARCHIVE_EXTRACT_PERM : 0) | ARCHIVE_EXTRACT_TIME |
			ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |
			ARCHIVE_EXTRACT_SAFE_WRITES);
	return to;
}

/* Remove what is in the way of an entry that is no regular file: libarchive's replacement would be
 * one. Its path begins with dir; nothing is removed through a symlink. */
static void make_way(struct archive_entry *e, const char *dir)
{
	auto_close int top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), parent = -1;
	const char *path = archive_entry_pathname(e) + strlen(dir);
	auto_free char *up = NULL;
	struct stat st;

	if (archive_entry_filetype(e) == AE_IFREG || archive_entry_hardlink(e) || top < 0)
		return;
	archive_entry_set_size(e, 0);
	path += strspn(path, "/");
	up = path_dir(path);
	parent = file_open_beneath(top, up, O_PATH | O_DIRECTORY);
	if (parent >= 0 && fstatat(parent, path_base(path), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		!S_ISDIR(st.st_mode))
		unlinkat(parent, path_base(path), 0);
}

MLR_CLEANUP(write_cleanup, struct archive *, archive_write_free);

/* The path below dir; NULL for the top itself. */
static int below(const char *dir, const char *name, char **ret, struct mlr_error *err)
{
	char path[PATH_MAX];
	int r = layer_path_clean(name, path, err);

	if (r < 0)
		return mlr_wrap(err, "'%.300s'", name ? name : "");
	*ret = *path ? xasprintf("%s/%s", dir, path) : NULL;
	return 0;
}

static int settle(const char *dir, struct archive_entry *e, int *skip, struct mlr_error *err)
{
	auto_free char *path = NULL, *link = NULL;
	mode_t type = archive_entry_filetype(e);
	int r = below(dir, archive_entry_pathname(e), &path, err);

	if (r == 0 && archive_entry_hardlink(e))
		r = below(dir, archive_entry_hardlink(e), &link, err);
	*skip = !path || type == AE_IFCHR || type == AE_IFBLK || type == AE_IFSOCK;
	if (r < 0 || *skip)
		return r;
	archive_entry_set_pathname(e, path);
	archive_entry_set_uid(e, geteuid()); /* else set-ID bits would be dropped */
	archive_entry_set_gid(e, getegid());
	if (link)
		archive_entry_set_hardlink(e, link);
	return 0;
}

static int check(struct archive *a, int r, struct mlr_error *err)
{
	int code = archive_errno(a);

	/* Not having the owner's rights for a time or a mode is worth a warning to libarchive. */
	return r < ARCHIVE_WARN
		? mlr_fail(err, code > 0 ? code : EPROTO, "%s", archive_error_string(a))
		: 0;
}

static int copy_data(struct archive *in, struct archive *to, struct mlr_error *err)
{
	const void *buf;
	la_int64_t at;
	size_t len;
	int s;

	while ((s = archive_read_data_block(in, &buf, &len, &at)) == ARCHIVE_OK)
		TRY(check(to, (int)archive_write_data_block(to, buf, len, at), err));
	return s != ARCHIVE_EOF ? check(in, ARCHIVE_FATAL, err) : 0;
}

static int extract(int fd, const char *dir, const int *cancel, struct mlr_error *err)
{
	auto_call(layer_archive_reader_cleanup) struct archive *in = layer_archive_reader(fd);
	auto_call(write_cleanup) struct archive *to =
		layer_extract_new(1); /* dir is closed to others */
	struct archive_entry *e;
	int s = ARCHIVE_FATAL, skip, r = 0;

	if (!in)
		return mlr_fail(err, EPROTO, "this is not a tar");
	while (r == 0 && (s = archive_read_next_header(in, &e)) == ARCHIVE_OK) {
		if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
			return mlr_fail(err, ECANCELED, "interrupted");
		r = settle(dir, e, &skip, err);
		if (r < 0 || skip)
			continue;
		make_way(e, dir);
		r = check(to, archive_write_header(to, e), err);
		if (r == 0 && archive_entry_filetype(e) == AE_IFREG && !archive_entry_hardlink(e))
			r = copy_data(in, to, err);
		if (r == 0)
			r = check(to, archive_write_finish_entry(to), err);
	}
	if (r == 0 && s != ARCHIVE_EOF)
		r = mlr_fail(err, EPROTO, "%s", archive_error_string(in));
	return r == 0 ? check(to, archive_write_close(to), err) : r;
}

int layer_extract(int fd, const char *dir, const int *cancel, struct mlr_error *err)
{
	struct layer_locale utf8 = { 0 };
	int r;

	layer_locale_begin(&utf8, "C.UTF-8");
	r = extract(fd, dir, cancel, err);
	layer_locale_end(&utf8);
	return r;
}
