#include "rootfs/flatten.h"

#include "layer/path.h"
#include "rootfs/layers.h"
#include "rootfs/listing.h"
#include "rootfs/place.h"

/* A layer being applied to the tree at root. */
struct applying {
	const struct rootfs_layer *layer;
	int root;
};

/* A directory that exists in the layer and in the tree. */
struct pair {
	int from, to;     /* open for reading */
	const char *path; /* in the layer, "" for the top */
	int fresh;        /* the tree's directory was made just now */
};

/* The path in the layer of a name in p, to free(). */
static char *path_in(const struct pair *p, const char *name)
{
	return xasprintf("%s%s%s", p->path, *p->path ? "/" : "", name);
}

static int empty(int fd, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;

	TRY(mlr_result(err, file_list(fd, ".", 0, &names), "read the directory"));
	for (size_t i = 0; i < names.n; i++)
		TRY(file_remove_tree(fd, names.v[i], err));
	return 0;
}

/* Open a directory with at least these rights, even if its owner has removed his own
 * permissions. */
static int open_dir(
	int parent, const char *name, mode_t need, struct stat *before, struct mlr_error *err)
{
	int fd;

	if (fstatat(parent, name, before, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at directory '%s'", name);
	if ((before->st_mode & need) != need &&
		fchmodat(parent, name, (before->st_mode & 07777) | need, 0) < 0 && errno != EPERM)
		return mlr_fail_errno(err, "set the mode of directory '%s'", name);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? mlr_fail_errno(err, "open directory '%s'", name) : fd;
}

static int make_dir(int parent, const char *name, struct mlr_error *err)
{
	if (mkdirat(parent, name, 0700) < 0)
		return mlr_fail_errno(err, "create directory '%s'", name);
	return 0;
}

static int note_made(void *ctx, const char *real, int opaque, struct mlr_error *err)
{
	strv_add(ctx, real);
	return 0;
}

/* The layer uses a directory, without naming it, where the tree has a symlink: its files go to the
 * link's target. Directories made for that get the time of unnamed ones. */
static int follow(
	const struct applying *a, const char *path, struct stat *before, struct mlr_error *err)
{
	const struct timespec ts[2] = { { 0, 0 }, { 0, 0 } };
	auto_strv struct strv made = STRV_INIT;
	auto_close int at = layer_path_walk(a->root, path, note_made, &made, NULL, err);

	for (size_t i = 0; i < made.n; i++)
		utimensat(a->root, made.v[i], ts, AT_SYMLINK_NOFOLLOW);
	return at < 0 ? at : open_dir(at, ".", S_IRWXU, before, err);
}

/* Open or make the tree's directory that the layer's directory is applied to. before gets its
 * former attributes. */
static int open_to(const struct applying *a, int to, const char *name, const char *path,
	struct stat *before, int *fresh, struct mlr_error *err)
{
	int fd;

	*fresh = 1;
	if (fstatat(to, name, before, AT_SYMLINK_NOFOLLOW) == 0) {
		*fresh = 0;
		if (S_ISDIR(before->st_mode))
			return open_dir(to, name, S_IRWXU, before, err);
		if (S_ISLNK(before->st_mode) && rootfs_layer_implies(a->layer, path)) {
			fd = follow(a, path, before, err);
			if (fd != -ENOTDIR)
				return fd;
		}
		TRY(file_remove_tree(to, name, err));
		*fresh = 1;
	} else if (errno != ENOENT) {
		return mlr_fail_errno(err, "look at '%s'", name);
	}
	TRY(make_dir(to, name, err));
	return open_dir(to, name, S_IRWXU, before, err);
}

/* Set mode and time: the layer's if it named the directory or the directory is new, else the old
 * ones. */
static int finish_dir(const struct applying *a, const struct pair *p, const struct stat *from,
	const struct stat *before, struct mlr_error *err)
{
	int keep = !p->fresh && rootfs_layer_implies(a->layer, p->path);
	const struct stat *sb = keep ? before : from;
	struct timespec ts[2] = { sb->st_mtim, sb->st_mtim };

	if (!keep)
		rootfs_place_xattrs(p->from, p->to);
	if (futimens(p->to, ts) < 0 || fchmod(p->to, sb->st_mode & 07777) < 0)
		return mlr_fail_errno(err, "set mode and time of directory '%s'", p->path);
	return 0;
}

static int apply_dir(const struct applying *a, const struct pair *p, struct mlr_error *err);

static int apply_subdir(
	const struct applying *a, const struct pair *p, const char *name, struct mlr_error *err)
{
	auto_free char *path = path_in(p, name);
	struct stat from_sb, before;
	struct pair sub = { .path = path };
	auto_close int from = open_dir(p->from, name, S_IRUSR | S_IXUSR, &from_sb, err);
	auto_close int to = -1;
	int r;

	if (from < 0)
		return from;
	to = open_to(a, p->to, name, path, &before, &sub.fresh, err);
	if (to < 0)
		return to;
	sub.from = from;
	sub.to = to;
	r = apply_dir(a, &sub, err);
	if (r == 0)
		r = finish_dir(a, &sub, &from_sb, &before, err);
	if ((from_sb.st_mode & (S_IRUSR | S_IXUSR)) != (S_IRUSR | S_IXUSR))
		fchmod(from, from_sb.st_mode & 07777); /* restore the layer's */
	return r;
}

/* A directory that the layer does not name is added to later instead. */
static int apply_name(const struct applying *a, const struct pair *p, const char *name,
	struct strv *later, struct mlr_error *err)
{
	struct stat sb;

	if (fstatat(p->from, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '%s'", name);
	if (layer_whiteout_is(&sb))
		return file_remove_tree(p->to, name, err);
	if (!S_ISDIR(sb.st_mode))
		return rootfs_place(p->from, p->to, name, err);
	auto_free char *path = path_in(p, name);

	if (rootfs_layer_implies(a->layer, path)) {
		strv_add(later, name);
		return 0;
	}
	return apply_subdir(a, p, name, err);
}

/*
 * Sorted, and unnamed directories last: they may lead through a symlink of the same layer, and a
 * tree must not depend on the order in which a file system lists names. The recursion is at most
 * LAYER_DEPTH_MAX deep, as layers are.
 */
static int apply_dir(const struct applying *a, const struct pair *p, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT, later = STRV_INIT;

	if (layer_opaque_is(p->from))
		TRY(empty(p->to, err));
	TRY(mlr_result(err, file_list(p->from, ".", 0, &names), "read directory '%s'", p->path));
	for (size_t i = 0; i < names.n; i++)
		TRY(apply_name(a, p, names.v[i], &later, err));
	for (size_t i = 0; i < later.n; i++)
		TRY(apply_subdir(a, p, later.v[i], err));
	return 0;
}

static int apply_layer(
	const struct rootfs_layer *layer, int root, int lowest, struct mlr_error *err)
{
	struct applying a = { layer, root };
	struct stat from, before;
	struct pair top = { layer->fd, root, "", lowest };

	if (fstat(layer->fd, &from) < 0 || fstat(root, &before) < 0)
		return mlr_fail_errno(err, "look at the top directory");
	if ((before.st_mode & S_IRWXU) != S_IRWXU && fchmod(root, before.st_mode | S_IRWXU) < 0)
		return mlr_fail_errno(err, "set the mode of the top directory");
	TRY(apply_dir(&a, &top, err));
	return finish_dir(&a, &top, &from, &before, err);
}

static int apply_all(
	const struct rootfs_layers *l, const struct strv *diff_ids, int root, struct mlr_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		int r = apply_layer(&l->v[i], root, i == 0, err);

		if (r < 0)
			return mlr_wrap(err, "apply layer %s", diff_ids->v[i]);
	}
	return 0;
}

int rootfs_tree_make(struct store *st, enum store_tree_kind kind, const char *manifest,
	const struct strv *diff_ids, rootfs_tree_fill *fill, const struct strv *names,
	struct mlr_error *err)
{
	auto_call(rootfs_layers_done) struct rootfs_layers l = { 0 };
	struct store_tree *t = NULL;
	int r = store_tree_begin(st, kind, manifest, &t, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = rootfs_layers_open(st, diff_ids, &l, err);
	if (r == 0)
		r = fill(&l, names, store_tree_fd(t), err);
	if (r == 0)
		r = rootfs_listing_note(st, t, err);
	if (r < 0) {
		store_tree_drop(t);
		mlr_wrap(err, "make %s of image %s", kind == STORE_DIR ? "one tree" : "the cover",
			manifest);
		return r;
	}
	return store_tree_publish(t, err);
}

int rootfs_flatten(
	struct store *st, const char *manifest, const struct strv *diff_ids, struct mlr_error *err)
{
	return rootfs_tree_make(st, STORE_DIR, manifest, diff_ids, apply_all, diff_ids, err);
}
