/* Whether overlayfs shows what applying the layers gives: rootfs_needs_flatten() of
 * rootfs/flatten.h. */
#include "rootfs/flatten.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "layer/whiteout.h"
#include "rootfs/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What the layers below one have at a path. */
enum below { NOTHING, DIRECTORY, OTHER };

/* 1, 0 or -errno. */
static int is_opaque(const struct rootfs_layer *l, const char *path)
{
	auto_close int fd = openat(l->fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : layer_opaque_is(fd);
}

/* Does the layer itself cut a path off from the layers below, by an opaque directory above it? */
static int is_cut_off(const struct rootfs_layer *l, const char *path)
{
	char part[PATH_MAX];
	int r = 0;

	for (const char *s = strchr(path, '/'); s && r == 0; s = strchr(s + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
		r = is_opaque(l, part);
	}
	return r;
}

/*
 * One name further down: of the n layers in at (topmost first) keep those whose directory overlayfs
 * merges there. Returns what the topmost one has.
 */
static int narrow(const struct rootfs_layers *l, const char *path, size_t *at, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		const struct rootfs_layer *layer = &l->v[at[i]];
		struct stat sb;
		int r;

		if (fstatat(layer->fd, path, &sb, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		if (!S_ISDIR(sb.st_mode)) {
			if (kept == 0 && !layer_whiteout_is(&sb))
				return OTHER;
			break;
		}
		at[kept++] = at[i];
		r = is_opaque(layer, path);
		if (r < 0)
			return r;
		if (r)
			break;
	}
	*n = kept;
	return kept ? DIRECTORY : NOTHING;
}

/* What the layers below top have at path; at gets the layers whose directories are merged, *n of
 * them. */
static int look_below(
	const struct rootfs_layers *l, size_t top, const char *path, size_t *at, size_t *n)
{
	char part[PATH_MAX];
	int r = DIRECTORY;

	for (*n = 0; *n < top; (*n)++)
		at[*n] = top - 1 - *n;
	if (strcmp(path, ".") == 0)
		return DIRECTORY;
	for (const char *s = path; s && r == DIRECTORY; s = *s ? s : NULL) {
		s += *s == '/';
		s += strcspn(s, "/");
		snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
		r = narrow(l, part, at, n);
	}
	return r;
}

/* A directory that a layer only used: does overlayfs show it otherwise than it was below? */
static int implicit_differs(const struct rootfs_layers *l, size_t top, const char *path, size_t *at)
{
	struct stat mine, theirs;
	size_t n;
	int r = is_cut_off(&l->v[top], path);

	if (r != 0)
		return r < 0 ? r : 0;
	r = look_below(l, top, path, at, &n);
	if (r != DIRECTORY)
		return r < 0 ? r : r == OTHER;
	for (size_t i = 0; i < n; i++) {
		if (rootfs_layer_implies(&l->v[at[i]], path))
			continue;
		if (fstatat(l->v[top].fd, path, &mine, AT_SYMLINK_NOFOLLOW) < 0 ||
			fstatat(l->v[at[i]].fd, path, &theirs, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		return mine.st_mode != theirs.st_mode ||
			mine.st_mtim.tv_sec != theirs.st_mtim.tv_sec ||
			mine.st_mtim.tv_nsec != theirs.st_mtim.tv_nsec;
	}
	return 0; /* nobody ever named it */
}

/* Whiteouts in a directory with nothing below: overlayfs lists their names, as it merges nothing
 * there. */
static int hiding_differs(const struct rootfs_layers *l, size_t top, const char *path, size_t *at)
{
	size_t n;
	int r = is_cut_off(&l->v[top], path);

	if (r != 0)
		return r;
	r = look_below(l, top, path, at, &n);
	return r < 0 ? r : r != DIRECTORY || n == 0;
}

static int layer_differs(const struct rootfs_layers *l, size_t top, size_t *at)
{
	const struct rootfs_layer *layer = &l->v[top];
	int r = top > 0 ? layer_opaque_is(layer->fd)
			: 0; /* overlayfs merges the tops whatever they say */

	for (size_t i = 0; r == 0 && top > 0 && i < layer->implicit.n; i++)
		if (strcmp(layer->implicit.v[i], ".") != 0) /* the root's is the container's own */
			r = implicit_differs(l, top, layer->implicit.v[i], at);
	for (size_t i = 0; r == 0 && i < layer->hiding.n; i++)
		r = hiding_differs(l, top, layer->hiding.v[i], at);
	return r == -EACCES ? 1 : r; /* unreadable directories: only flattening looks into them */
}

int rootfs_needs_flatten(struct store *st, const struct strv *diff_ids, struct mlr_error *err)
{
	auto_call(rootfs_layers_done) struct rootfs_layers l = ROOTFS_LAYERS_INIT;
	auto_free size_t *at = xcalloc(diff_ids->n, sizeof(*at));
	int r = rootfs_layers_open(st, diff_ids, &l, err);

	for (size_t i = 0; r == 0 && i < l.n; i++) {
		r = layer_differs(&l, i, at);
		if (r < 0)
			return mlr_fail(
				err, -r, "look into layer %s: %s", diff_ids->v[i], strerror(-r));
	}
	return r;
}
