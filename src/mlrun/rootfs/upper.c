#include "rootfs/upper.h"

#include "base/file_owner.h"
#include "base/tighten.h"
#include "layer/archive.h"
#include "layer/entry.h"
#include "layer/unpack.h"
#include "layer/path.h"

/* --- the modes of the image below ------------------------------------------------- */

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* Does the image show that layer's entry? Layers above may use a directory. */
static int is_shown(
	const struct rootfs_layers *l, size_t layer, const char *path, const struct stat *st)
{
	struct stat sb;

	for (size_t i = l->n; i-- > layer;)
		if (fstatat(l->v[i].fd, path, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			!(i > layer && S_ISDIR(sb.st_mode) && rootfs_layer_implies(&l->v[i], path)))
			return i == layer && (sb.st_mode & S_IFMT) == (st->st_mode & S_IFMT);
	return 0;
}

/* Does the entry itself record its mode? Then a copy of it does so, too, and what does not is a new
 * file of that name. */
static int is_recorded(const struct rootfs_layers *l, size_t layer, const char *path)
{
	auto_free char *entry = xasprintf("/proc/self/fd/%d/%s", l->v[layer].fd, path);
	struct file_owner o;

	return file_owner_get(entry, &o) > 0 && o.mode;
}

/*
 * The mode for an entry of the upper directory. If the image has an entry of the same type there,
 * and its mode in the tree is unchanged, the image's specified mode; else the entry's own. Set-ID
 * bits are always the entry's own. So is the mode where the image's entry records it itself
 * (base/file_owner.h): a changed entry keeps that record, and one without it is new.
 *
 *   path  "var/tmp", without symlinks; "." for the top
 */
static mode_t meant_mode(const struct rootfs_upper *u, const char *path, const struct stat *st)
{
	const struct layer_name *n = layer_names_at(u->names->t, u->names->top, path);
	mode_t mode = st->st_mode & 07777, meant = n && n->inode ? n->inode->mode & 01777 : 0;

	if (!(meant & OTHERS_WRITE) || layer_names_kind(n) == LAYER_SYMLINK ||
		(mode & ~(mode_t)(S_ISUID | S_ISGID)) != (meant & ~(mode_t)TIGHTEN_BITS) ||
		!is_shown(u->below, n->inode->layer, path, st) ||
		is_recorded(u->below, n->inode->layer, path))
		return mode;
	return mode | meant;
}

/* --- the tar ---------------------------------------------------------------------- */

struct walk {
	struct rootfs_upper *upper;
	struct layer_archive *tar;
};

static int has_changed(const char *path, struct mlr_error *err)
{
	return mlr_fail(err, EBUSY, "'/%s' changed while it was read", path);
}

static int put_mark(struct walk *w, const char *dir, const char *name, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s%s.wh.%s", dir, *dir ? "/" : "", name);

	return layer_archive_put_mark(w->tar, path, err);
}

/* Find what a fake root recorded of a link or fifo, which cannot have it with it. */
static void find_owner(const struct rootfs_upper *u, int dir, const char *name, const char *path,
	struct file_owner *ret)
{
	struct owners_file_key key;

	if (u->owners && owners_file_key_of(dir, name, AT_SYMLINK_NOFOLLOW, path, &key) == 0)
		owners_file_find(u->owners, &key, ret);
}

/* Set the owner that was recorded, else root; and the recorded mode. */
static void set_owner(struct archive_entry *e, const struct file_owner *o, const struct stat *st)
{
	archive_entry_set_uid(e, o->uid);
	archive_entry_set_gid(e, o->gid);
	if (o->mode)
		archive_entry_set_perm(e, file_owner_mode(o, st->st_mode) & 07777);
}

static int put_thing(struct walk *w, int dir, const char *name, const char *path, int fd,
	const struct stat *st, const struct file_owner *o, struct mlr_error *err)
{
	auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();

	if (layer_entry_describe(e, dir, name, path, st) < 0)
		return has_changed(path, err);
	if (w->upper->newest && st->st_mtime > w->upper->newest)
		archive_entry_set_mtime(e, w->upper->newest, 0);
	if (w->upper->below)
		archive_entry_set_perm(
			e, meant_mode(w->upper, strcmp(path, "./") == 0 ? "." : path, st));
	set_owner(e, o, st);
	return layer_archive_put(w->tar, e, path, fd, err);
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
	struct file_owner o = { 0, 0, 0 };
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
		fd = file_open_readable(
			dir, name, &st, &lent, &o); /* a fake root may have shut it */
		if (fd == -ESTALE || fd == -ENOENT)
			return has_changed(path, err);
		if (fd < 0)
			return mlr_result(err, fd, "open '/%s'", path);
	} else {
		find_owner(w->upper, dir, name, path, &o);
	}
	r = put_thing(w, dir, name, path, fd, &st, &o, err);
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
	r = file_list(dir, ".", 0, &names);
	if (r < 0)
		mlr_result(err, r, "list '/%s'", path);
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
	struct file_owner o;
	struct stat st;

	if (fstat(w->upper->fd, &st) < 0)
		return mlr_fail_errno(err, "look at '/'");
	file_owner_get_fd(w->upper->fd, &o);
	TRY(put_thing(w, -1, "", "./", w->upper->fd, &st, &o, err));
	return walk(w, w->upper->fd, "", 0, err);
}

int rootfs_upper_tar(void *upper, layer_write_fn write, void *to, struct mlr_error *err)
{
	struct walk w = { .upper = upper };
	int r = layer_archive_open(write, to, &w.tar, err);

	strv_done(&w.upper->omitted);
	return r < 0 ? r : layer_archive_close(w.tar, put_all(&w, err), err);
}

int rootfs_upper_has_any(int fd)
{
	auto_strv struct strv names = STRV_INIT;

	TRY(file_list(fd, ".", 0, &names));
	return names.n > 0;
}
