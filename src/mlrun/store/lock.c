#include "store/lock.h"

#include "store/hold.h"

#define OWNER_SIZE (17 + STORE_HOLD_NAME)

struct store_lock {
	struct store *st;
	char *path;
	char owner[OWNER_SIZE]; /* "<16 hex> <hold>"; the first word is unique */
};

static void lock_free(struct store_lock *l)
{
	free(l->path);
	free(l);
}

/* Read who holds the lock. -ENOENT: nobody. */
static int read_owner(struct store *st, const char *path, char owner[OWNER_SIZE])
{
	auto_free char *file = xasprintf("%s/owner", path), *text = NULL;
	int r = file_read(store_fd(st), file, OWNER_SIZE - 1, &text, NULL, NULL);

	if (r == -ESTALE)
		return -ENOENT;
	TRY(r);
	snprintf(owner, OWNER_SIZE, "%s", text);
	return strlen(owner) > 17 && owner[16] == ' ' ? 0 : -EPROTO;
}

static void broken_path(const char owner[OWNER_SIZE], char path[48])
{
	snprintf(path, 48, "tmp/broken.%.16s", owner);
}

/*
 * Remove the lock of this owner. If two processes break it at once, the second one finds it gone,
 * or moves another process's lock and moves it back.
 */
static void take_away(struct store *st, const char *path, const char owner[OWNER_SIZE])
{
	char to[48], moved[OWNER_SIZE] = "";
	int fd = store_fd(st);

	broken_path(owner, to);
	if (renameat(fd, path, fd, to) < 0)
		return;
	read_owner(st, to, moved);
	if (moved[0] && strcmp(moved, owner) != 0 && renameat(fd, to, fd, path) == 0)
		return;
	file_remove_tree(fd, to, NULL);
}

/* Make a directory with the owner's file: rename(2) cannot replace a directory that is not empty.
 */
static int make_private(const struct store_lock *l, const char *dir, struct mlr_error *err)
{
	auto_free char *file = xasprintf("%s/owner", dir);
	int top = store_fd(l->st), r;
	auto_close int fd = -1;

	if (mkdirat(top, dir, 0755) < 0)
		return mlr_fail_errno(err, "create directory '%s/%s'", store_path(l->st), dir);
	fd = openat(top, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return mlr_fail_errno(err, "create '%s/%s'", store_path(l->st), file);
	r = file_write_all(fd, l->owner, strlen(l->owner));
	if (r < 0)
		mlr_result(err, r, "write '%s/%s'", store_path(l->st), file);
	return r;
}

static int wait_and_rename(
	const struct store_lock *l, const char *dir, const char *what, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w = STORE_WAIT_INIT(l->st, what);
	int fd = store_fd(l->st), r;

	while (renameat(fd, dir, fd, l->path) < 0) {
		char owner[OWNER_SIZE];

		if (errno != EEXIST && errno != ENOTEMPTY)
			return mlr_fail_errno(
				err, "rename '%s' to '%s/%s'", dir, store_path(l->st), l->path);
		r = read_owner(l->st, l->path, owner);
		if (r == -EPROTO) /* not made by mlrun */
			return mlr_fail(err, EPROTO, "'%s/%s' is not a lock of mlrun's",
				store_path(l->st), l->path);
		if (r == 0 && !store_wait_alive(&w, owner + 17)) {
			mlr_debug("store: '%s' is broken: its holder ended", l->path);
			take_away(l->st, l->path, owner);
			continue;
		}
		r = store_wait_nap(&w, r == 0 ? owner + 17 : "", err);
		TRY(r);
	}
	return 0;
}

int store_lock_take(struct store *st, const char *path, const char *what, struct store_lock **ret,
	struct mlr_error *err)
{
	struct store_lock *l = xcalloc(1, sizeof(*l));
	auto_free char *dir = NULL;
	char id[17];
	int r;

	random_hex(id);
	l->st = st;
	l->path = xstrdup(path);
	snprintf(l->owner, sizeof(l->owner), "%s %s", id, store_hold_name(st));
	dir = xasprintf("tmp/new-%s.%s", id, store_hold_name(st));
	r = make_private(l, dir, err);
	if (r == 0)
		r = wait_and_rename(l, dir, what, err);
	if (r < 0) {
		file_remove_tree(store_fd(st), dir, NULL);
		lock_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void store_lock_release(struct store_lock *l)
{
	char owner[OWNER_SIZE];

	if (!l)
		return;
	if (read_owner(l->st, l->path, owner) == 0 && strcmp(owner, l->owner) == 0)
		take_away(l->st, l->path, owner);
	lock_free(l);
}

void store_lock_sweep(struct store *st, const char *path, int seconds)
{
	char owner[OWNER_SIZE];

	if (read_owner(st, path, owner) == 0 && !store_hold_alive(st, owner + 17, seconds))
		take_away(st, path, owner);
}
