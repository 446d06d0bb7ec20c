#include "base/tighten.h"

#include "base/base.h"

struct walk {
	int change;
	uid_t owner;
	tighten_fn found;
	void *ctx;
};

#define PLACE_PATH 32

/* Name the inode that was checked, whatever its path means by now. */
static void place_path(int place, char path[PLACE_PATH])
{
	snprintf(path, PLACE_PATH, "/proc/self/fd/%d", place);
}

static int change_mode(int place, mode_t mode)
{
	char path[PLACE_PATH];

	place_path(place, path);
	return chmod(path, mode & 07777);
}

static int open_dir(int place)
{
	char path[PLACE_PATH];

	place_path(place, path);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int look(const struct walk *w, int place, const char *path, const struct stat *st,
	struct mlr_error *err)
{
	int foreign = st->st_uid != w->owner;

	if (!foreign && !(st->st_mode & TIGHTEN_BITS))
		return 0;
	if (w->found)
		w->found(w->ctx, path, st);
	if (!w->change || foreign || change_mode(place, st->st_mode & ~TIGHTEN_BITS) == 0)
		return 0;
	return mlr_fail_errno(err, "set the mode of '%s'", path);
}

static int walk(const struct walk *w, int dir, const char *path, struct mlr_error *err);

/* Enter a directory; if it is the owner's, it gets the permissions to be read meanwhile. */
static int enter(const struct walk *w, int place, const char *path, const struct stat *st,
	struct mlr_error *err)
{
	mode_t mode = st->st_mode & ~TIGHTEN_BITS;
	int lent = w->change && st->st_uid == w->owner && (mode & S_IRWXU) != S_IRWXU &&
		change_mode(place, mode | S_IRWXU) == 0;
	auto_close int fd = open_dir(place);
	int r = fd < 0 ? -errno : walk(w, fd, path, err);

	if (lent && change_mode(place, mode) < 0)
		return mlr_fail_errno(err, "set the mode of '%s'", path);
	if (fd < 0 && r != -EACCES)
		return mlr_fail(err, -r, "open directory '%s': %s", path, strerror(-r));
	return fd < 0 ? 0 : r;
}

static int visit(
	const struct walk *w, int dir, const char *name, const char *path, struct mlr_error *err)
{
	auto_close int place = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r;

	if (place < 0 || fstat(place, &st) < 0)
		return errno == ENOENT ? 0 : mlr_fail_errno(err, "look at '%s'", path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISFIFO(st.st_mode))
		return 0;
	r = look(w, place, path, &st, err);
	return r == 0 && S_ISDIR(st.st_mode) ? enter(w, place, path, &st, err) : r;
}

/* The recursion is as deep as file_remove_tree()'s. */
static int walk(const struct walk *w, int dir, const char *path, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(dir, ".", 0);
	int r = 0;

	if (!d)
		return mlr_fail_errno(err, "read directory '%s'", path);
	for (struct dirent *e; r == 0 && (e = file_next(d));) {
		auto_free char *sub = xasprintf("%s%s%s", path, *path ? "/" : "", e->d_name);

		r = visit(w, dir, e->d_name, sub, err);
	}
	return r;
}

static int start(int dirfd, const char *tree, struct walk *w, struct mlr_error *err)
{
	auto_close int place = openat(dirfd, tree, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (place < 0 || fstat(place, &st) < 0)
		return mlr_fail_errno(err, "look at '%s'", tree);
	w->owner = st.st_uid;
	TRY(look(w, place, ".", &st, err));
	return enter(w, place, "", &st, err);
}

int tighten_find(int dirfd, const char *tree, tighten_fn found, void *ctx, struct mlr_error *err)
{
	struct walk w = { .found = found, .ctx = ctx };

	return start(dirfd, tree, &w, err);
}

int tighten_tree(int dirfd, const char *tree, tighten_fn found, void *ctx, struct mlr_error *err)
{
	struct walk w = { .change = 1, .found = found, .ctx = ctx };

	return start(dirfd, tree, &w, err);
}
