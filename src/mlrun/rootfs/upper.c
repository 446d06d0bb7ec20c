#include "rootfs/upper.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "layer/entry.h"
#include "layer/unpack.h"
#include "layer/whiteout.h"

#include <archive.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct walk {
	struct rootfs_upper *upper;
	struct layer_entry_target tar;

	layer_write_fn write;
	void *to;
	struct mlr_error why; /* the error of a failed write */
	int failed;           /* its -errno */
	int ended;            /* ignore further output: it is no part of the tar */
};

/* Always report success to libarchive: it leaks an archive's memory if writing fails. */
static la_ssize_t drain(struct archive *a, void *ctx, const void *buf, size_t len)
{
	struct walk *w = ctx;

	(void)a;
	if (w->failed == 0 && !w->ended)
		w->failed = w->write(w->to, buf, len, &w->why);
	return (la_ssize_t)len;
}

/* Call it after each call of libarchive's, with its result. */
static int check(void *ctx, int r, struct mlr_error *err)
{
	const struct walk *w = ctx;
	const char *why = archive_error_string(w->tar.archive);

	if (w->failed < 0 && err)
		*err = w->why;
	if (w->failed < 0)
		return w->failed;
	return r < ARCHIVE_WARN ? mlr_fail(err, EIO, "%s", why ? why : "write an archive") : 0;
}

static int has_changed(const char *path, struct mlr_error *err)
{
	return mlr_fail(err, EBUSY, "'/%s' changed while it was read", path);
}

static int list_names(int dir, const char *path, struct strv *ret, struct mlr_error *err)
{
	DIR *d = file_open_dir(dir, ".", 0);
	struct dirent *e;

	if (!d)
		return mlr_fail_errno(err, "list '/%s'", path);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			strv_add(ret, e->d_name);
	closedir(d);
	strv_sort(ret);
	return 0;
}

static struct archive_entry *entry_new(void)
{
	struct archive_entry *e = archive_entry_new();

	if (!e)
		mlr_oom();
	return e;
}

/* "a/.wh.b": a whiteout, which consists of a name alone. */
static int put_mark(struct walk *w, const char *dir, const char *name, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s%s.wh.%s", dir, *dir ? "/" : "", name);
	struct archive_entry *e = entry_new();
	int r;

	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0);
	archive_entry_set_size(e, 0);
	archive_entry_set_mtime(e, 0, 0);
	r = check(w, archive_write_header(w->tar.archive, e), err);
	archive_entry_free(e);
	return r;
}

static int set_target(struct archive_entry *e, int dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	archive_entry_set_symlink(e, target);
	return 0;
}

static int put_thing(struct walk *w, int dir, const char *name, const char *path, int fd,
	const struct stat *st, struct mlr_error *err)
{
	struct archive_entry *e = entry_new();
	int r = 0;

	archive_entry_copy_stat(e, st);
	if (w->upper->below)
		archive_entry_set_perm(e,
			rootfs_modes_meant(
				w->upper->below, strcmp(path, "./") == 0 ? "." : path, st));
	archive_entry_set_pathname(e, path);
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	if (S_ISLNK(st->st_mode))
		r = set_target(e, dir, name);
	r = r < 0 ? has_changed(path, err) : layer_entry_put(&w->tar, e, path, fd, err);
	archive_entry_free(e);
	return r;
}

static int walk(struct walk *w, int dir, const char *path, unsigned depth, struct mlr_error *err);

static int is_omitted(const char *name, mode_t mode)
{
	return S_ISSOCK(mode) || S_ISCHR(mode) || S_ISBLK(mode) || strncmp(name, ".wh.", 4) == 0;
}

static int put_name(struct walk *w, int dir, const char *name, const char *parent, unsigned depth,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s%s%s", parent, *parent ? "/" : "", name);
	auto_close int fd = -1;
	struct stat st;
	int r, lent = 0;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? has_changed(path, err)
				       : mlr_fail_errno(err, "look at '/%s'", path);
	if (layer_whiteout_is(&st))
		return put_mark(w, parent, name, err);
	if (is_omitted(name, st.st_mode)) {
		strv_addf(&w->upper->omitted, "/%s", path);
		return 0;
	}
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = file_open_readable(dir, name, &st, &lent); /* a fake root may have shut it */
		if (fd == -ESTALE || fd == -ENOENT)
			return has_changed(path, err);
		if (fd < 0)
			return mlr_fail(err, -fd, "open '/%s': %s", path, strerror(-fd));
	}
	r = put_thing(w, dir, name, path, fd, &st, err);
	if (r == 0 && S_ISDIR(st.st_mode))
		r = walk(w, fd, path, depth + 1, err);
	if (lent)
		file_take_back(fd, &st);
	return r;
}

static int walk(struct walk *w, int dir, const char *path, unsigned depth, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	const int *cancel = w->upper->cancel;
	int r = 0;

	if (depth > LAYER_DEPTH_MAX)
		return mlr_fail(err, EFBIG, "'/%s' is more than %d directories deep", path,
			LAYER_DEPTH_MAX);
	r = list_names(dir, path, &names, err);
	if (r == 0 && layer_opaque_is(dir) > 0)
		r = put_mark(w, path, ".wh..opq", err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		r = put_name(w, dir, names.v[i], path, depth, err);
		if (r == 0 && cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
			r = mlr_fail(err, ECANCELED, "interrupted");
	}
	return r;
}

/* Include the top: only a member can specify its mode and time. */
static int put_all(struct walk *w, struct mlr_error *err)
{
	struct stat st;
	int r;

	if (fstat(w->upper->fd, &st) < 0)
		return mlr_fail_errno(err, "look at '/'");
	r = put_thing(w, -1, "", "./", w->upper->fd, &st, err);
	return r < 0 ? r : walk(w, w->upper->fd, "", 0, err);
}

static int start(struct walk *w, struct mlr_error *err)
{
	archive_write_set_format_pax_restricted(w->tar.archive);
	archive_write_add_filter_none(w->tar.archive);
	archive_write_set_bytes_per_block(w->tar.archive, LAYER_ENTRY_BUFFER);
	archive_write_set_bytes_in_last_block(w->tar.archive, 1);
	archive_entry_linkresolver_set_strategy(w->tar.links, archive_format(w->tar.archive));
	return check(w, archive_write_open(w->tar.archive, w, NULL, drain, NULL), err);
}

/* Use a UTF-8 locale, in which libarchive writes UTF-8 names to pax headers. In others it marks
 * them as binary, and other programs warn. */
static locale_t speak_utf8(locale_t *was)
{
	locale_t l = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);

	if (l)
		*was = uselocale(l);
	return l;
}

static void speak_as_before(locale_t l, locale_t was)
{
	if (!l)
		return;
	uselocale(was);
	freelocale(l);
}

int rootfs_upper_tar(void *upper, layer_write_fn write, void *to, struct mlr_error *err)
{
	auto_free char *buf = xmalloc(LAYER_ENTRY_BUFFER);
	struct walk w = {
		.upper = upper, .tar = { .buf = buf, .check = check }, .write = write, .to = to
	};
	locale_t was, utf8 = speak_utf8(&was);
	int r;

	w.tar.ctx = &w;
	strv_done(&w.upper->omitted);
	w.tar.archive = archive_write_new();
	w.tar.links = archive_entry_linkresolver_new();
	if (!w.tar.archive || !w.tar.links)
		mlr_oom();
	r = start(&w, err);
	if (r == 0)
		r = put_all(&w, err);
	w.ended = r < 0;
	if (r == 0)
		r = check(&w, archive_write_close(w.tar.archive), err);
	archive_write_free(w.tar.archive);
	archive_entry_linkresolver_free(w.tar.links);
	speak_as_before(utf8, was);
	return r;
}

int rootfs_upper_has_any(int fd)
{
	DIR *d = file_open_dir(fd, ".", 0);
	int n = 0;

	if (!d)
		return -errno;
	while (n < 3 && readdir(d))
		n++;
	closedir(d);
	return n == 3;
}
