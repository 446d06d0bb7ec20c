#include "layer/dirs.h"

#include "base/base.h"
#include "base/tighten.h"
#include "layer/path.h"
#include "layer/unpack.h"

#include <search.h>

struct layer_dir {
	char *path;
	size_t depth, order;
	mode_t mode;
	struct timespec mtime;
};

#define NODE_BYTES 64 /* of the C library, for a string or a tree node */

void layer_dirs_done(struct layer_dirs *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->named[i].path);
	free(d->named);
	tdestroy(d->implicit, free);
	tdestroy(d->hiding, free);
	tdestroy(d->made, free);
	strv_done(&d->open);
	memset(d, 0, sizeof(*d));
}

static int charge(struct layer_dirs *d, size_t bytes, struct mlr_error *err)
{
	d->bytes += bytes;
	if (d->bytes > d->bytes_max)
		return mlr_fail(err, EFBIG, "more directories than %zu bytes of memory can hold",
			d->bytes_max);
	return 0;
}

static size_t depth_of(const char *path)
{
	size_t n = *path != '\0';

	for (; *path; path++)
		n += *path == '/';
	return n;
}

int layer_dirs_name(struct layer_dirs *d, const char *path, mode_t mode,
	const struct timespec *mtime, struct mlr_error *err)
{
	struct layer_dir *v = d->named;
	char *copy;

	TRY(charge(d, sizeof(*v) + strlen(path) + NODE_BYTES / 2, err));
	if (d->n == d->room) {
		v = reallocarray(v, d->room ? 2 * d->room : 64, sizeof(*v));
		if (!v)
			return mlr_fail(err, ENOMEM, "no memory for %zu directories", d->n);
		d->named = v;
		d->room = d->room ? 2 * d->room : 64;
	}
	copy = strdup(path);
	if (!copy)
		return mlr_fail(err, ENOMEM, "no memory for %zu directories", d->n);
	v[d->n] = (struct layer_dir){ copy, depth_of(path), d->n, mode, *mtime };
	d->n++;
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int add(struct layer_dirs *d, void **set, const char *real, struct mlr_error *err)
{
	char *copy;

	if (!*real)
		real = ".";
	if (tfind(real, set, by_text))
		return 0;
	TRY(charge(d, strlen(real) + NODE_BYTES, err));
	copy = strdup(real);
	if (!copy || !tsearch(copy, set, by_text)) {
		free(copy);
		return mlr_fail(err, ENOMEM, "no memory to remember directory '%s'", real);
	}
	return 0;
}

int layer_dirs_imply(struct layer_dirs *d, const char *real, struct mlr_error *err)
{
	return add(d, &d->implicit, real, err);
}

int layer_dirs_hide(struct layer_dirs *d, const char *real, struct mlr_error *err)
{
	return add(d, &d->hiding, real, err);
}

static void drop(void **set, const char *real)
{
	char **node = tfind(real, set, by_text);
	char *text;

	if (!node)
		return;
	text = *node;
	tdelete(text, set, by_text);
	free(text);
}

void layer_dirs_unimply(struct layer_dirs *d, const char *real)
{
	drop(&d->implicit, *real ? real : ".");
}

int layer_dirs_make(struct layer_dirs *d, const char *real, struct mlr_error *err)
{
	return add(d, &d->made, real, err);
}

void layer_dirs_unmake(struct layer_dirs *d, const char *real)
{
	drop(&d->made, *real ? real : ".");
}

static int deepest_first(const void *a, const void *b)
{
	const struct layer_dir *x = a, *y = b;

	int r;

	if (x->depth != y->depth)
		return x->depth < y->depth ? 1 : -1;
	r = strcmp(x->path, y->path);
	return r ? r : (x->order > y->order) - (x->order < y->order);
}

/* Note a directory that everybody may write to: in the tree only its owner may. Directories above
 * it are still searchable for the owner. */
static int note_open(
	struct layer_dirs *d, const struct layer_dir *dir, int root, struct mlr_error *err)
{
	char real[PATH_MAX];
	int fd;

	if (!(dir->mode & S_IWOTH) || d->open.n == LAYER_OPEN_MAX)
		return 0;
	fd = layer_path_walk(root, dir->path, NULL, NULL, real, err);
	if (fd < 0)
		return fd;
	close(fd);
	strv_addf(&d->open, "%o %s", (unsigned)dir->mode & 01777, *real ? real : ".");
	return 0;
}

static int apply_one(
	struct layer_dirs *d, const struct layer_dir *dir, int root, struct mlr_error *err)
{
	/* The owner must be able to read the layer and to make a container of it. */
	const mode_t least = *dir->path ? 0 : S_IRUSR | S_IXUSR;
	mode_t mode = (dir->mode & ~TIGHTEN_BITS) | least;
	struct timespec ts[2] = { dir->mtime, dir->mtime };
	auto_close int fd = file_open_in_root(
		root, *dir->path ? dir->path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct stat sb;

	/* Something else may be in its place, or a symlink may give it a second name, under which
	 * it already became unreadable. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EACCES)
		return 0;
	if (fd < 0)
		return mlr_fail(err, -fd, "open directory '%s': %s", dir->path, strerror(-fd));
	if (futimens(fd, ts) < 0)
		return mlr_fail_errno(err, "set the time of directory '%s'", dir->path);
	TRY(note_open(d, dir, root, err));
	if (fstat(fd, &sb) < 0 || ((sb.st_mode & 07777) != mode && fchmod(fd, mode) < 0))
		return mlr_fail_errno(err, "set the mode of directory '%s'", dir->path);
	return 0;
}

int layer_dirs_apply(struct layer_dirs *d, int root, struct mlr_error *err)
{
	if (d->n)
		qsort(d->named, d->n, sizeof(*d->named), deepest_first);
	for (size_t i = 0; i < d->n; i++) {
		int r;

		if (i + 1 < d->n && strcmp(d->named[i].path, d->named[i + 1].path) == 0)
			continue; /* named twice: the last one counts */
		r = apply_one(d, &d->named[i], root, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int layer_dirs_each_closed(const struct layer_dirs *d,
	int (*fn)(void *ctx, const char *path, struct mlr_error *err), void *ctx,
	struct mlr_error *err)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct layer_dir *dir = &d->named[i];
		int is_open = !*dir->path || (dir->mode & S_IXUSR);
		int r = is_open ? 0 : fn(ctx, dir->path, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void collect(const void *node, VISIT visit, void *list)
{
	if (visit == postorder || visit == leaf)
		strv_add(list, *(char *const *)node);
}

void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding)
{
	twalk_r(d->implicit, collect, implicit);
	twalk_r(d->hiding, collect, hiding);
}

/* Skips a directory that something else has replaced. */
void layer_dirs_age_made(const struct layer_dirs *d, int root)
{
	const struct timespec ts[2] = { { 0, 0 }, { 0, 0 } };
	auto_strv struct strv made = STRV_INIT;

	twalk_r(d->made, collect, &made);
	for (size_t i = 0; i < made.n; i++) {
		auto_close int fd =
			file_open_beneath(root, made.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

		if (fd >= 0 && futimens(fd, ts) < 0)
			mlr_debug("layer: time of '%s': %s", made.v[i], strerror(errno));
	}
}

static void drop_gone(void **set, const struct strv *paths,
	int (*is_gone)(void *ctx, const char *real), void *ctx)
{
	for (size_t i = 0; i < paths->n; i++)
		if (is_gone(ctx, paths->v[i]))
			drop(set, paths->v[i]);
}

void layer_dirs_forget(struct layer_dirs *d, int (*is_gone)(void *ctx, const char *real), void *ctx)
{
	auto_strv struct strv implicit = STRV_INIT, hiding = STRV_INIT;

	layer_dirs_list(d, &implicit, &hiding);
	drop_gone(&d->implicit, &implicit, is_gone, ctx);
	drop_gone(&d->hiding, &hiding, is_gone, ctx);
}
