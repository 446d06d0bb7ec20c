#include "runtime/overlay.h"

#include "runtime/bind.h"

#include <sys/mount.h>

static int fill(int tree, int upper, struct mlr_error *err);

static int copy_link(int tree, int upper, const char *name, struct mlr_error *err)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(tree, name, text, sizeof(text) - 1);

	if (n < 0)
		return mlr_fail_errno(err, "read the image's link '%s'", name);
	text[n] = '\0';
	if (symlinkat(text, upper, name) < 0)
		return mlr_fail_errno(err, "make the link '%s'", name);
	return 0;
}

/* Like bind_take(), but refuses links: another user with write access to an image directory may
 * have put one there since it was checked. */
static int take(int tree, const char *name, int is_dir)
{
	auto_close int fd = openat(tree, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[40];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode) != is_dir)
		return -ESTALE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return bind_take(AT_FDCWD, path, PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV);
}

/* Bind an entry of the image onto a place of its kind. */
static int bind(int tree, int upper, const char *name, int is_dir, struct mlr_error *err)
{
	auto_close int place = -1, from = -1;
	int r;

	if ((is_dir ? mkdirat(upper, name, 0755) : mknodat(upper, name, S_IFREG | 0644, 0)) < 0)
		return mlr_fail_errno(err, "make a place for '%s'", name);
	place = openat(upper, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (place < 0)
		return mlr_fail_errno(err, "open the place for '%s'", name);
	from = take(tree, name, is_dir);
	r = from < 0 ? from : bind_put(from, place, PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV);
	return mlr_result(err, r, "bind the image's '%s'", name);
}

/* Both have a directory of this name: fill ours. What the caller cannot read, as another user's
 * directory with rootfs:/, is not missed. */
static int descend(int tree, int upper, const char *name, struct mlr_error *err)
{
	auto_close int from = openat(tree, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int to = openat(upper, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (from < 0 && errno == EACCES && to >= 0)
		return 0;
	if (from < 0 || to < 0)
		return mlr_fail_errno(err, "open the image's directory '%s'", name);
	return fill(from, to, err);
}

static int fill_one(int tree, int upper, const char *name, struct mlr_error *err)
{
	struct stat image, ours;

	if (fstatat(tree, name, &image, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at the image's '%s'", name);
	if (fstatat(upper, name, &ours, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISDIR(image.st_mode) && S_ISDIR(ours.st_mode)
			? descend(tree, upper, name, err)
			: 0; /* ours takes precedence */
	if (S_ISLNK(image.st_mode))
		return copy_link(tree, upper, name, err);
	return bind(tree, upper, name, S_ISDIR(image.st_mode), err);
}

/* Directories keep the image's times. */
static int fill(int tree, int upper, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(tree, ".", 0);
	struct stat st;
	int r = 0;

	if (!d)
		return mlr_fail_errno(err, "read a directory of the image");
	if (fstat(upper, &st) < 0)
		return mlr_fail_errno(err, "look at a directory of the scratch tmpfs");
	for (struct dirent *e; r == 0 && (e = file_next(d));)
		r = fill_one(tree, upper, e->d_name, err);

	const struct timespec times[2] = { st.st_atim, st.st_mtim };

	return r == 0 && utimensat(upper, ".", times, 0) < 0
		? mlr_fail_errno(err, "set the times of a directory")
		: r;
}

int underlay_serves(const struct plan *p, const struct overlay *o)
{
	return o->trees.n == 1 && p->root != PLAN_ROOT_KEPT;
}

/* Make it a mount, so that it can become "/". */
static int make_root(struct overlay *o, struct mlr_error *err)
{
	char from[40], to[40];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", o->upper);
	snprintf(to, sizeof(to), "/proc/self/fd/%d/root", o->scratch);
	if ((mkdirat(o->scratch, "root", 0755) < 0 && errno != EEXIST) ||
		mount(from, to, NULL, MS_BIND, NULL) < 0)
		return mlr_fail_errno(err, "bind the root");
	o->root = openat(o->scratch, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->root < 0 ? mlr_fail_errno(err, "open the root") : 0;
}

int underlay_mount(struct overlay *o, struct mlr_error *err)
{
	TRY(make_root(o, err));
	return fill(o->trees.fds[0], o->root, err);
}
