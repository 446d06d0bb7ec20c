#include "store/format.h"

#include "store/guard.h"
#include "store/handle.h"
#include "store/hold.h"

#include <sys/file.h>

#define MAKING_MS 2000 /* how long another process may take to make a store's parts */

static const char *const parts[] = { "blobs", "blobs/sha256", "layers", "cover", "dir", "squash",
	"facts", "images", "leases", "holds", "tmp", "unsynced", "containers" };

/* May a directory with this entry become a store? */
static int is_ours(const char *name)
{
	static const char *const others[] = { "version", "lock", "mark",
		"lost+found" /* a fresh ext4 file system has it */ };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strcmp(name, parts[i]) == 0)
			return 1;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(name, others[i]) == 0)
			return 1;
	return strncmp(name, "version.", 8) == 0; /* left when file_replace() was killed */
}

/* Refuse a directory that holds other things. */
static int check_empty(const struct store *st, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(st->fd, ".", 0);
	int r = 0;

	if (!d)
		return mlr_fail_errno(err, "store '%s'", st->path);
	for (struct dirent *e; r == 0 && (e = file_next(d));) {
		if (!is_ours(e->d_name)) {
			r = mlr_fail(err, ENOTEMPTY,
				"'%s' is not a store of images and not empty ('%.100s')", st->path,
				e->d_name);
			mlr_hint(err,
				"move that away, or name another directory with --store or MLRUN_STORE");
		}
	}
	return r;
}

/* Make all parts, and "version" last: a store with a version is complete. */
static int make_parts(struct store *st, struct mlr_error *err)
{
	char version[16];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		mode_t mode = strcmp(parts[i], "containers") == 0 ? 0700 : 0755;

		if (mkdirat(st->fd, parts[i], mode) < 0 && errno != EEXIST)
			return mlr_fail_errno(err, "create directory '%s/%s'", st->path, parts[i]);
	}
	r = openat(st->fd, "holds/token", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (r < 0)
		return mlr_fail_errno(err, "create '%s/holds/token'", st->path);
	close(r);
	snprintf(version, sizeof(version), "%d\n", STORE_FORMAT);
	r = file_replace(st->fd, "version", version, strlen(version), 0644, err);
	if (r < 0) {
		mlr_wrap(err, "store '%s'", st->path);
		return r;
	}
	st->format = STORE_FORMAT;
	return 0;
}

/* Make the parts readable for everybody whom the top directory lets in, whatever the umask. */
static int make_shown_parts(struct store *st, struct mlr_error *err)
{
	mode_t mask = umask(STORE_UMASK);
	int r = make_parts(st, err);

	umask(mask);
	return r;
}

static int make_new(struct store *st, struct mlr_error *err)
{
	TRY(check_empty(st, err));
	TRY(store_guard_close(st, err));
	return make_shown_parts(st, err);
}

/* The directory that a path lies in, to free(). */
static char *parent_of(const char *path)
{
	char *dir = path_clean(path), *slash = strrchr(dir, '/');

	slash[slash == dir] = '\0';
	return dir;
}

static int make_aside(struct store *aside, const char *path, struct mlr_error *err)
{
	int r;

	if (mkdir(aside->path, 0700) < 0)
		return mlr_fail_errno(err, "create directory '%s'", path);
	aside->fd = open(aside->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (aside->fd < 0 || fchmod(aside->fd, 0700) < 0)
		return mlr_fail_errno(err, "create directory '%s'", path);
	r = make_shown_parts(aside, err);
	if (r == 0 && rename(aside->path, path) < 0 && errno != EEXIST && errno != ENOTEMPTY)
		r = mlr_fail_errno(err, "rename '%s' to '%s'", aside->path, path);
	return r;
}

int store_format_make(const struct store *st, struct mlr_error *err)
{
	auto_free char *dir = parent_of(st->path), *path = path_clean(st->path), *name = NULL;
	char hex[RANDOM_HEX_SIZE];
	struct store aside = { .fd = -1 };
	int r = file_mkdir_p(AT_FDCWD, dir, 0755, err);

	random_hex(hex);
	aside.path = name = xasprintf("%s.%s", path, hex);
	if (r == 0)
		r = make_aside(&aside, path, err);
	fd_close(&aside.fd);
	file_remove_tree(
		AT_FDCWD, name, NULL); /* another process was first, or the rename failed */
	return r < 0 ? mlr_wrap(err, "store '%s'", st->path) : 0;
}

/* Is another process making a store of this directory? */
static int is_being_made(const struct store *st, int64_t since)
{
	if (faccessat(st->fd, parts[0], F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
		mlr_now_ms() - since > MAKING_MS)
		return 0;
	mlr_sleep_ms(20);
	return 1;
}

static int open_version(struct store *st, int create)
{
	int64_t since = create ? 0 : mlr_now_ms();
	int fd;

	do
		fd = openat(st->fd, "version", O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == ENOENT && !create && is_being_made(st, since));
	return fd;
}

int store_format_check(struct store *st, int create, struct mlr_error *err)
{
	char buf[16] = "", *end;
	long version;
	auto_close int fd = open_version(st, create);
	ssize_t n;

	if (fd < 0 && errno == ENOENT && create)
		return make_new(st, err);
	if (fd < 0 && errno == ENOENT) {
		TRY(check_empty(st, err));
		return mlr_fail(err, ENOENT,
			"'%s' is not a store of images: it has no file 'version'", st->path);
	}
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s/version'", st->path);

	n = file_read_full(fd, buf, sizeof(buf) - 1);
	if (n < 0)
		return mlr_result(err, (int)n, "read '%s/version'", st->path);
	version = strtol(buf, &end, 10);
	if (end == buf || (*end != '\n' && *end != '\0') || version < 1)
		return mlr_fail(err, EPROTO, "'%s/version' contains no format number", st->path);
	if (version <= STORE_FORMAT) {
		st->format = (int)version;
		return 0;
	}
	mlr_fail(err, ENOTSUP, "store '%s' has format %ld, this mlrun knows formats up to %d",
		st->path, version, STORE_FORMAT);
	mlr_hint(err,
		"use the newer mlrun that made it, or another store with --store or MLRUN_STORE");
	return -ENOTSUP;
}

/* Delete what killed pulls of mlrun 0.1 left. The caller has the lock of format 1, so none is
 * alive. */
static void empty_tmp(struct store *st)
{
	auto_dir DIR *d = file_open_dir(st->fd, "tmp", 0);

	for (struct dirent *e; (e = file_next(d));) {
		auto_free char *path = xasprintf("tmp/%s", e->d_name);

		if (strncmp(e->d_name, "layer-", 6) == 0 || strncmp(e->d_name, "dir-", 4) == 0 ||
			strncmp(e->d_name, "cover-", 6) == 0)
			file_remove_tree(st->fd, path, NULL);
	}
}

/* Wait for processes of format 1: all adders shared one lock by flock(2). If flock(2) does not work
 * here, there are none, since they refused to start. */
static int wait_for_old(struct store *st, int fd, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(st, "an older mlrun, changing this store");

	while (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		TRY(store_wait_nap(&w, "", err));
	return 0;
}

/* Wait for processes of older formats: those of format 1 share a lock, those of format 2 have
 * holds. */
static int wait_for_older(struct store *st, int *lock, struct mlr_error *err)
{
	if (st->format >= 2)
		return store_wait_for_all(st, "an older mlrun, changing this store", err);
	*lock = openat(st->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (*lock < 0)
		return mlr_fail_errno(err, "upgrade store '%s': open its lock", st->path);
	return wait_for_old(st, *lock, err);
}

static int upgrade(struct store *st, struct mlr_error *err)
{
	int old = st->format, r;

	mlr_debug("store: '%s' gets format %d", st->path, STORE_FORMAT);
	if (old < 2)
		empty_tmp(st);
	r = store_guard_close(st, err);
	if (r == 0)
		r = store_tighten_all(st, err);
	if (r == 0)
		r = make_parts(st, err);
	if (r == 0 && old < 2)
		unlinkat(st->fd, "lock", 0);
	return r;
}

int store_upgrade(struct store *st, struct mlr_error *err)
{
	auto_close int lock = -1;
	mode_t mask;
	int r;

	if (st->format >= STORE_FORMAT)
		return 0;
	r = wait_for_older(st, &lock, err);
	if (r == 0)
		r = store_format_check(
			st, 0, err); /* another process may have upgraded it meanwhile */
	if (r < 0 || st->format >= STORE_FORMAT)
		return r;
	mask = umask(STORE_UMASK);
	r = upgrade(st, err);
	umask(mask);
	return r < 0 ? mlr_wrap(err, "upgrade the store") : 0;
}
