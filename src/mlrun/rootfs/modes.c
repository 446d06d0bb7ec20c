#include "rootfs/modes.h"

#include "base/base.h"
#include "base/file_owner.h"
#include "base/tighten.h"
#include "layer/whiteout.h"
#include "rootfs/layers.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

struct rootfs_modes {
	struct rootfs_layers layers;
	struct rootfs_names names;
};

void rootfs_modes_free(struct rootfs_modes *m)
{
	if (!m)
		return;
	layer_names_free(m->names.t);
	rootfs_layers_done(&m->layers);
	free(m);
}

int rootfs_modes_read(struct store *st, const struct strv *diff_ids, struct rootfs_modes **ret,
	struct mlr_error *err)
{
	struct rootfs_modes *m = xcalloc(1, sizeof(*m));
	int r = rootfs_layers_open(st, diff_ids, &m->layers, err);

	if (r == 0)
		r = rootfs_names_read(st, diff_ids, &m->names, err);
	if (r < 0)
		rootfs_modes_free(m);
	else
		*ret = m;
	return r;
}

/* Does the image show that layer's entry? Layers above may use a directory. */
static int is_shown(
	const struct rootfs_modes *m, size_t layer, const char *path, const struct stat *st)
{
	struct stat sb;

	for (size_t i = m->layers.n; i-- > layer;)
		if (fstatat(m->layers.v[i].fd, path, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			!(i > layer && S_ISDIR(sb.st_mode) &&
				rootfs_layer_implies(&m->layers.v[i], path)))
			return i == layer && (sb.st_mode & S_IFMT) == (st->st_mode & S_IFMT);
	return 0;
}

/* Does the entry itself record its mode? Then a copy of it does so, too, and what does not is a new
 * file of that name. */
static int is_recorded(const struct rootfs_modes *m, size_t layer, const char *path)
{
	auto_free char *entry = xasprintf("/proc/self/fd/%d/%s", m->layers.v[layer].fd, path);
	struct file_owner o;

	return file_owner_get(entry, &o) > 0 && o.mode;
}

int rootfs_modes_has(const struct rootfs_modes *m, const char *path)
{
	struct stat sb;

	for (size_t i = 0; i < m->layers.n; i++)
		if (fstatat(m->layers.v[i].fd, path, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			!layer_whiteout_is(&sb))
			return 1;
	return 0;
}

mode_t rootfs_modes_meant(const struct rootfs_modes *m, const char *path, const struct stat *st)
{
	const struct layer_name *n = layer_names_at(m->names.t, m->names.top, path);
	mode_t mode = st->st_mode & 07777, meant = n && n->inode ? n->inode->mode & 01777 : 0;

	if (!(meant & OTHERS_WRITE) || layer_names_kind(n) == LAYER_SYMLINK ||
		(mode & ~(mode_t)(S_ISUID | S_ISGID)) != (meant & ~(mode_t)TIGHTEN_BITS) ||
		!is_shown(m, n->inode->layer, path, st) || is_recorded(m, n->inode->layer, path))
		return mode;
	return mode | meant;
}
