#include "layer/dirs.h"

#include "base/tighten.h"
#include "layer/path.h"

void layer_dirs_init(struct layer_dirs *d, size_t memory)
{
	*d = (struct layer_dirs){ .t = layer_names_new(memory), .memory = memory };
}

void layer_dirs_done(struct layer_dirs *d)
{
	layer_names_free(d->t);
	strv_done(&d->open);
	memset(d, 0, sizeof(*d));
}

int layer_dirs_get(
	struct layer_dirs *d, const char *real, struct layer_name **ret, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	int r = 0;

	if (!d->top)
		d->top = layer_names_top(d->t, &why);
	r = d->top ? layer_names_get(d->t, d->top, real, ret, &why) : -why.code;
	if (r == -EFBIG)
		return mlr_fail(err, EFBIG, "more directories than %zu bytes of memory can hold",
			d->memory);
	return r < 0 ? mlr_pass(err, -r, why.text) : 0;
}

void layer_dirs_drop(struct layer_dirs *d, const char *real)
{
	struct layer_name *n = d->top ? layer_names_at(d->t, d->top, real) : NULL;

	if (n && n != d->top)
		layer_names_remove(d->t, n);
}

/* Remove whiteouts from an opaque directory: they hide nothing, but overlayfs would list them. */
static int drop_idle_whiteouts(int fd, const char *path, struct mlr_error *err)
{
	auto_dir DIR *d = layer_opaque_is(fd) ? file_open_dir(fd, ".", 0) : NULL;
	struct dirent *e;
	struct stat sb;

	while (d && (e = readdir(d)))
		if (fstatat(fd, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			layer_whiteout_is(&sb) && unlinkat(fd, e->d_name, 0) < 0)
			return mlr_fail_errno(err, "remove the whiteout '%s/%s'", path, e->d_name);
	return 0;
}

/* Note a directory that everybody may write to: in the tree only its owner may. */
static void note_open(struct layer_dirs *d, const struct layer_name *n, const char *path)
{
	if ((n->inode->mode & S_IWOTH) && d->open.n < LAYER_OPEN_MAX)
		strv_addf(&d->open, "%o %s", (unsigned)n->inode->mode & 01777, path);
}

static int finish(struct layer_dirs *d, int root, const struct layer_name *n, struct mlr_error *err)
{
	/* The owner must be able to read the layer and to make a container of it. */
	const mode_t least = n == d->top ? S_IRUSR | S_IXUSR : 0;
	mode_t mode = (n->inode->mode & ~(mode_t)TIGHTEN_BITS) | least;
	const struct timespec mtime = { n->inode->mtime, n->inode->mtime_nsec },
			      ts[2] = { mtime, mtime };
	auto_free char *path = layer_names_path(n);
	auto_close int fd = file_open_in_root(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct stat sb;

	if (fd < 0)
		return mlr_result(err, fd, "open directory '%s'", path);
	if (n->marks & LAYER_DIRS_HIDES)
		TRY(drop_idle_whiteouts(fd, path, err));
	if (futimens(fd, ts) < 0)
		return mlr_fail_errno(err, "set the time of directory '%s'", path);
	if (!n->named)
		return 0;
	note_open(d, n, path);
	if (fstat(fd, &sb) < 0 || ((sb.st_mode & 07777) != mode && fchmod(fd, mode) < 0))
		return mlr_fail_errno(err, "set the mode of directory '%s'", path);
	return 0;
}

static int apply(
	struct layer_dirs *d, int root, const struct layer_name *dir, struct mlr_error *err)
{
	for (const struct layer_name *n = dir->child; n; n = n->next)
		TRY(apply(d, root, n, err));
	return finish(d, root, dir, err);
}

int layer_dirs_apply(struct layer_dirs *d, int root, struct mlr_error *err)
{
	return apply(d, root, d->top, err);
}

static int each_closed(const struct layer_name *dir,
	int (*fn)(void *ctx, const char *real, struct mlr_error *err), void *ctx,
	struct mlr_error *err)
{
	if (dir->parent && dir->named && !(dir->inode->mode & S_IXUSR)) {
		auto_free char *path = layer_names_path(dir);

		return fn(ctx, path, err);
	}
	for (const struct layer_name *n = dir->child; n; n = n->next)
		TRY(each_closed(n, fn, ctx, err));
	return 0;
}

int layer_dirs_each_closed(const struct layer_dirs *d,
	int (*fn)(void *ctx, const char *real, struct mlr_error *err), void *ctx,
	struct mlr_error *err)
{
	return each_closed(d->top, fn, ctx, err);
}

static void collect(const struct layer_name *dir, struct strv *implicit, struct strv *hiding)
{
	auto_free char *path = dir->implied || dir->marks ? layer_names_path(dir) : NULL;

	if (dir->implied)
		strv_add(implicit, path);
	if (dir->marks & LAYER_DIRS_HIDES)
		strv_add(hiding, path);
	for (const struct layer_name *n = dir->child; n; n = n->next)
		collect(n, implicit, hiding);
}

void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding)
{
	collect(d->top, implicit, hiding);
	strv_sort(implicit);
	strv_sort(hiding);
}
