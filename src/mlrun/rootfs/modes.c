#include "rootfs/modes.h"

#include "base/base.h"
#include "base/file_owner.h"
#include "base/tighten.h"
#include "layer/whiteout.h"
#include "layer/path.h"
#include "layer/record.h"
#include "oci/digest.h"
#include "rootfs/layers.h"

#include <archive_entry.h>
#include <search.h>

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* The mode that the topmost layer gives a path, if that layer or a lower one gave it write
 * permission for others. */
struct meant {
	size_t layer;
	mode_t mode;
	char path[];
};

struct rootfs_modes {
	struct rootfs_layers layers;
	void *paths; /* tsearch(3) tree of struct meant */

	size_t reading; /* the current layer, and the directory of the previous member: */
	char dir[PATH_MAX], real[PATH_MAX];
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct meant *)a)->path, ((const struct meant *)b)->path);
}

static struct meant *meant_new(const char *path)
{
	size_t n = strlen(path) + 1;
	struct meant *m = xcalloc(1, sizeof(*m) + n);

	memcpy(m->path, path, n);
	return m;
}

static struct meant *find(const struct rootfs_modes *m, const char *path)
{
	auto_free struct meant *key = meant_new(path);
	struct meant **found = tfind(key, &m->paths, by_path);

	return found ? *found : NULL;
}

void rootfs_modes_free(struct rootfs_modes *m)
{
	if (!m)
		return;
	tdestroy(m->paths, free);
	rootfs_layers_done(&m->layers);
	free(m);
}

static void modes_cleanup(struct rootfs_modes **m)
{
	rootfs_modes_free(*m);
}

/* The name in the tree that a member's path leads to, following the layer's links, to free(); NULL
 * if it leads nowhere. */
static char *real_path(struct rootfs_modes *m, const char *name)
{
	char path[PATH_MAX];
	const char *slash;
	int fd;

	if (layer_path_clean(name, path, NULL) < 0)
		return NULL;
	slash = strrchr(path, '/');
	if (!slash)
		return xstrdup(*path ? path : ".");
	if (strncmp(m->dir, path, (size_t)(slash - path)) != 0 || m->dir[slash - path]) {
		memcpy(m->dir, path, (size_t)(slash - path));
		m->dir[slash - path] = '\0';
		fd = layer_path_walk(m->layers.v[m->reading].fd, m->dir, NULL, NULL, m->real, NULL);
		if (fd < 0) {
			m->dir[0] = '\0';
			return NULL;
		}
		close(fd);
	}
	return xasprintf("%s%s%s", m->real, *m->real ? "/" : "", slash + 1);
}

static int remember(void *ctx, struct archive_entry *e, struct mlr_error *err)
{
	struct rootfs_modes *m = ctx;
	const char *hard = archive_entry_hardlink(e);
	auto_free char *path = real_path(m, archive_entry_pathname(e));
	auto_free char *target = hard ? real_path(m, hard) : NULL;
	const struct meant *of = target ? find(m, target) : NULL;
	mode_t mode = hard ? (of ? of->mode : 0) : archive_entry_perm(e);
	struct meant *said = path ? find(m, path) : NULL;

	(void)err;
	if (!path || (!said && !(mode & OTHERS_WRITE)) || archive_entry_filetype(e) == AE_IFLNK)
		return 0;
	if (!said) {
		said = meant_new(path);
		if (!tsearch(said, &m->paths, by_path))
			mlr_oom();
	}
	said->layer = m->reading;
	said->mode = mode & 01777;
	return 0;
}

static int read_layer(
	struct store *st, const char *diff_id, struct rootfs_modes *m, struct mlr_error *err)
{
	auto_close int fd = rootfs_layer_record(st, diff_id, err);
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	m->dir[0] = '\0';
	r = layer_headers(fd, remember, m, err);
	return r < 0 ? mlr_wrap(err, "layer %s", diff_id) : 0;
}

int rootfs_modes_read(struct store *st, const struct strv *diff_ids, struct rootfs_modes **ret,
	struct mlr_error *err)
{
	__attribute__((cleanup(modes_cleanup))) struct rootfs_modes *m = xcalloc(1, sizeof(*m));
	int r = rootfs_layers_open(st, diff_ids, &m->layers, err);

	for (m->reading = 0; r == 0 && m->reading < diff_ids->n; m->reading++)
		r = read_layer(st, diff_ids->v[m->reading], m, err);
	if (r == 0)
		*ret = take_ptr(&m);
	return r;
}

/* Does the image show that layer's entry? Layers above may use a directory. */
static int is_shown(const struct rootfs_modes *m, const struct meant *said, const struct stat *st)
{
	struct stat sb;

	for (size_t i = m->layers.n; i-- > said->layer;)
		if (fstatat(m->layers.v[i].fd, said->path, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			!(i > said->layer && S_ISDIR(sb.st_mode) &&
				rootfs_layer_implies(&m->layers.v[i], said->path)))
			return i == said->layer && (sb.st_mode & S_IFMT) == (st->st_mode & S_IFMT);
	return 0;
}

/* Does the entry itself record its mode? Then a copy of it does so, too, and what does not is a new
 * file of that name. */
static int is_recorded(const struct rootfs_modes *m, const struct meant *said)
{
	auto_free char *path =
		xasprintf("/proc/self/fd/%d/%s", m->layers.v[said->layer].fd, said->path);
	struct file_owner o;

	return file_owner_get(path, &o) > 0 && o.mode;
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
	const struct meant *said = find(m, path);
	mode_t mode = st->st_mode & 07777;

	if (!said || (mode & ~(mode_t)(S_ISUID | S_ISGID)) != (said->mode & ~TIGHTEN_BITS) ||
		!is_shown(m, said, st) || is_recorded(m, said))
		return mode;
	return mode | said->mode;
}
