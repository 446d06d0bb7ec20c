#include "store/tree.h"

#include "oci/digest.h"
#include "store/handle.h"
#include "store/hold.h"
#include "store/lock.h"
#include "store/trash.h"
#include "store/unsynced.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

/*
 * What a careless copy of a store loses, checked at each opening: a tree with all that removed
 * files need, "mark/gone" (a whiteout) in "mark" (opaque). For the files of this room.
 */

#define MARK   "mark"
#define GONE   "mark/gone"
#define OPAQUE "user.overlay.opaque"

static int fill(const struct store *st, const char *work)
{
	auto_close int dir = -1;

	if (mkdirat(st->fd, work, 0755) == 0)
		dir = openat(st->fd, work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 || fchmod(dir, 0755) < 0 || fsetxattr(dir, OPAQUE, "y", 1, 0) < 0 ||
			mknodat(dir, strrchr(GONE, '/') + 1, S_IFCHR, makedev(0, 0)) < 0
		? -errno
		: 0;
}

/* Make the mark unless it is there, or the file system keeps none. Errors are only logged: the mark
 * guards, nothing needs it. */
static void store_make_mark(struct store *st)
{
	char work[STORE_WORK_PATH];

	if (faccessat(st->fd, MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		store_work_path("probe", work, NULL) < 0)
		return;
	if (fill(st, work) < 0 || renameat(st->fd, work, st->fd, MARK) < 0)
		mlr_debug("store: no mark was made: %s", strerror(errno));
	file_remove_tree(st->fd, work, NULL);
}

int store_check_mark(const struct store *st, struct mlr_error *err)
{
	auto_close int dir = openat(st->fd, MARK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat gone;
	char value = '\0';
	int has_xattr;

	if (dir < 0)
		return 0;
	/* Another node may have mounted this file system without attributes. */
	has_xattr = fgetxattr(dir, OPAQUE, &value, 1) == 1 || errno == ENOTSUP;
	if (has_xattr && fstatat(st->fd, GONE, &gone, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISCHR(gone.st_mode))
		return 0;
	mlr_fail(err, EUCLEAN,
		"store '%s' is a copy without the %s, so files that images removed would be back",
		st->path, has_xattr ? "whiteouts (character devices)" : "extended attributes");
	mlr_hint(err,
		"'cp -a' and 'tar --xattrs' make a whole copy; mlrun-store(1), Copies, says how to delete this one");
	return -EUCLEAN;
}

static const struct {
	const char *dir;  /* of finished trees */
	const char *name; /* the prefix in tmp/ */
	const char *what; /* in messages */
	const char *file; /* the suffix if the tree is a file */
} kinds[] = {
	[STORE_LAYER] = { "layers", "layer", "layer", NULL },
	[STORE_DIR] = { "dir", "dir", "the tree of image", NULL },
	[STORE_COVER] = { "cover", "cover", "the cover of image", NULL },
	[STORE_SQUASH] = { "squash", "squash", "the squashfs file of image", ".sqfs" },
};

#define TREE_PATH 96

struct store_tree {
	struct store *st;
	enum store_tree_kind kind;
	char *final; /* "layers/<hex>", "squash/<hex>.sqfs" */
	char *work;  /* "tmp/layer-<hex>.<hold>" */
	struct store_lock *lock;
	int tree_fd;
};

/* The path that a rename publishes: "layers/<hex>", "squash/<hex>.sqfs". */
static void final_path(enum store_tree_kind kind, const char *hex, char path[TREE_PATH])
{
	const char *end = kinds[kind].file ? kinds[kind].file : "";

	snprintf(path, TREE_PATH, "%s/%.64s%s", kinds[kind].dir, hex, end);
}

/* The tree itself: "layers/<hex>/tree", "squash/<hex>.sqfs". */
static void tree_path(enum store_tree_kind kind, const char *hex, char path[TREE_PATH])
{
	final_path(kind, hex, path);
	if (!kinds[kind].file)
		strcat(path, "/tree");
}

static void tree_free(struct store_tree *t)
{
	if (!t)
		return;
	fd_close(&t->tree_fd);
	store_lock_release(t->lock);
	free(t->final);
	free(t->work);
	free(t);
}

MLR_CLEANUP(tree_cleanup, struct store_tree *, tree_free);

static struct store_tree *tree_new(struct store *st, enum store_tree_kind kind, const char *hex)
{
	struct store_tree *t = xcalloc(1, sizeof(*t));
	char final[TREE_PATH];

	final_path(kind, hex, final);
	t->st = st;
	t->kind = kind;
	t->tree_fd = -1;
	t->final = xstrdup(final);
	t->work = xasprintf("tmp/%s-%.64s.%s", kinds[kind].name, hex, store_hold_name(st));
	return t;
}

static int lock(struct store_tree *t, const char *key, struct mlr_error *err)
{
	auto_free char *what = xasprintf("making %s %s", kinds[t->kind].what, key);
	auto_free char *path =
		xasprintf("tmp/%s-%.64s.lock", kinds[t->kind].name, oci_digest_hex(key));

	return store_lock_take(t->st, path, what, &t->lock, err);
}

/*
 * Remove what earlier producers of the same tree left. It is renamed away first, so a live producer
 * that was considered dead finds all of its work gone.
 */
static int remove_stale(const struct store_tree *t, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(t->st), "tmp", 0);
	size_t prefix = strlen(kinds[t->kind].name) + 1 + 64 + 1;
	int r = 0;

	if (!d)
		return mlr_fail_errno(err, "open '%s/tmp'", store_path(t->st));
	for (struct dirent *e; r == 0 && (e = file_next(d));) {
		auto_free char *path = NULL;

		if (strncmp(e->d_name, t->work + strlen("tmp/"), prefix) != 0 ||
			strcmp(e->d_name + prefix, "lock") == 0)
			continue;
		path = xasprintf("tmp/%s", e->d_name);
		if (strcmp(path, t->work) != 0 &&
			store_hold_alive(t->st, e->d_name + prefix, store_stale_seconds() * 60))
			continue;
		mlr_debug("store: removing '%s' of a process that ended", e->d_name);
		r = store_discard(t->st, path, err);
	}
	return r;
}

static int make_file(struct store_tree *t, struct mlr_error *err)
{
	t->tree_fd = openat(
		store_fd(t->st), t->work, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (t->tree_fd < 0)
		return mlr_fail_errno(err, "create '%s/%s'", store_path(t->st), t->work);
	return 0;
}

static int make_work(struct store_tree *t, struct mlr_error *err)
{
	auto_free char *tree = xasprintf("%s/tree", t->work);

	if (kinds[t->kind].file)
		return make_file(t, err);

	if (mkdirat(store_fd(t->st), t->work, 0755) < 0 || mkdirat(store_fd(t->st), tree, 0755) < 0)
		return mlr_fail_errno(err, "create directory '%s/%s'", store_path(t->st), tree);
	t->tree_fd = openat(store_fd(t->st), tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->tree_fd < 0)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(t->st), tree);

	/* The image sets the mode, not the umask, a set-group-ID directory or a default ACL. */
	if (fchmod(t->tree_fd, 0755) < 0)
		return mlr_fail_errno(err, "set the mode of '%s/%s'", store_path(t->st), tree);
	if (fremovexattr(t->tree_fd, "system.posix_acl_default") < 0 && errno != ENODATA &&
		errno != ENOTSUP)
		mlr_debug("store: default ACL of '%s': %s", tree, strerror(errno));
	return 0;
}

static int check_key(const char *key, struct mlr_error *err)
{
	int r = oci_digest_check(key, err);

	if (r < 0)
		mlr_wrap(err, "tree '%.100s'", key);
	return r;
}

int store_tree_exists(struct store *st, enum store_tree_kind kind, const char *key)
{
	char path[TREE_PATH];
	int there;

	if (oci_digest_check(key, NULL) < 0)
		return 0;
	tree_path(kind, oci_digest_hex(key), path);
	there = faccessat(store_fd(st), path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	final_path(kind, oci_digest_hex(key), path);
	return there && !unsynced_is_suspect(st, path);
}

int store_tree_check(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err)
{
	char path[TREE_PATH];

	final_path(kind, oci_digest_hex(key), path);
	if (!unsynced_is_suspect(st, path))
		return 0;
	mlr_fail(err, EUCLEAN, "the machine went down before '%s/%s' was written to disk",
		store_path(st), path);
	return mlr_hint(err, "mlrun pull fetches it again");
}

/* Remove a tree that a crash of the machine left incomplete. */
static int discard_suspect(const struct store_tree *t, struct mlr_error *err)
{
	if (!unsynced_is_suspect(t->st, t->final))
		return 0;
	/* Unless rm removed it. */
	if (faccessat(store_fd(t->st), t->final, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		mlr_info("'%s/%s' was not fully on disk when the machine went down: making it "
			 "again",
			store_path(t->st), t->final);
	TRY(store_discard(t->st, t->final, err));
	unsynced_forget(t->st, t->final);
	return 0;
}

int store_tree_begin(struct store *st, enum store_tree_kind kind, const char *key,
	struct store_tree **ret, struct mlr_error *err)
{
	auto_call(tree_cleanup) struct store_tree *t = NULL;
	auto_close int fd = -1;
	int r;

	TRY(check_key(key, err));
	TRY(store_hold(st, err));
	if (store_tree_exists(st, kind, key))
		return 1;

	t = tree_new(st, kind, oci_digest_hex(key));
	TRY(lock(t, key, err));
	/* Opening the directory refreshes NFS's cache of it. */
	fd = openat(store_fd(st), kinds[kind].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store_tree_exists(st, kind, key))
		return 1;

	TRY(remove_stale(t, err));
	TRY(discard_suspect(t, err));
	r = make_work(t, err);
	if (r < 0) {
		file_remove_tree(store_fd(st), t->work, NULL);
		return r;
	}
	*ret = take_ptr(&t);
	return 0;
}

int store_tree_fd(const struct store_tree *t)
{
	return t->tree_fd;
}

int store_tree_note_open(struct store_tree *t, const char *name, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", t->work, name);
	int fd = openat(
		store_fd(t->st), path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return mlr_fail_errno(err, "create '%s/%s'", store_path(t->st), path);
	return fd;
}

int store_tree_note(
	struct store_tree *t, const char *name, const void *buf, size_t len, struct mlr_error *err)
{
	auto_close int fd = store_tree_note_open(t, name, err);

	if (fd < 0)
		return fd;
	return mlr_result(err, file_write_all(fd, buf, len), "write '%s/%s/%s'", store_path(t->st),
		t->work, name);
}

/*
 * Sync the tree by one syncfs(2), which also writes other processes' data: an fsync(2) for each of
 * thousands of files would wait for the journal each time.
 */
static int make_lasting(const struct store_tree *t)
{
	if (kinds[t->kind].file)
		return fsync(t->tree_fd);
	if (unsynced_allowed(t->st) && unsynced_mark(t->st, t->final) == 0)
		return 0;
	return syncfs(t->tree_fd);
}

static int publish(struct store_tree *t, struct mlr_error *err)
{
	int fd = store_fd(t->st);

	if (make_lasting(t) < 0)
		return mlr_fail_errno(err, "sync '%s/%s'", store_path(t->st), t->work);
	if (renameat(fd, t->work, fd, t->final) < 0) {
		if (errno == ENOENT && store_hold_is_lost(t->st))
			return store_hold_lost(t->st, err);
		if (errno != EEXIST && errno != ENOTEMPTY)
			return mlr_fail_errno(err, "rename '%s' to '%s/%s'", t->work,
				store_path(t->st), t->final);
		file_remove_tree(fd, t->work, NULL); /* another process made the same tree */
	}
	return mlr_result(err, file_sync_dir(fd, kinds[t->kind].dir), "sync '%s/%s'",
		store_path(t->st), kinds[t->kind].dir);
}

int store_tree_publish(struct store_tree *t, struct mlr_error *err)
{
	int r;

	if (t->kind == STORE_LAYER)
		store_make_mark(t->st);
	r = publish(t, err);
	if (r < 0)
		file_remove_tree(store_fd(t->st), t->work, NULL);
	tree_free(t);
	return r;
}

void store_tree_drop(struct store_tree *t)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (!t)
		return;
	if (file_remove_tree(store_fd(t->st), t->work, &err) < 0)
		mlr_debug("store: %s", err.text);
	tree_free(t);
}

char *store_tree_relpath(enum store_tree_kind kind, const char *key)
{
	char path[TREE_PATH];

	tree_path(kind, oci_digest_hex(key), path);
	return xstrdup(path);
}

int store_tree_open(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err)
{
	auto_free char *path = NULL;
	int fd;

	TRY(check_key(key, err));
	path = store_tree_relpath(kind, key);
	fd = openat(store_fd(st), path,
		O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (kinds[kind].file ? 0 : O_DIRECTORY));
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(st), path);
	return fd;
}

static uint64_t usage_at(int dir, const char *name);

static uint64_t usage_below(int dir, const char *name)
{
	auto_dir DIR *d = file_open_dir(dir, name, O_NOFOLLOW);
	uint64_t sum = 0;

	for (struct dirent *e; (e = file_next(d));)
		sum += usage_at(dirfd(d), e->d_name);
	return sum;
}

/* Recursion is as deep as a layer, at most LAYER_DEPTH_MAX. */
static uint64_t usage_at(int dir, const char *name)
{
	struct stat sb;
	uint64_t own;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	own = (uint64_t)sb.st_blocks * 512;
	if (S_ISDIR(sb.st_mode))
		return own + usage_below(dir, name);
	return sb.st_nlink > 1 ? own / sb.st_nlink : own;
}

uint64_t store_usage(struct store *st, const char *path)
{
	return usage_at(store_fd(st), path);
}
