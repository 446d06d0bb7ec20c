#include "store/format.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/handle.h"
#include "store/hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

static const char *const parts[] = { "blobs", "blobs/sha256", "layers", "cover", "dir", "squash",
	"facts", "images", "leases", "holds", "tmp", "unsynced", "containers" };

/* May an entry lie in a store, or in what becomes one? */
static int is_ours(const char *name)
{
	static const char *const others[] = { ".", "..", "version", "lock",
		"lost+found" /* a fresh ext4 file system has it */ };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strcmp(name, parts[i]) == 0)
			return 1;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(name, others[i]) == 0)
			return 1;
	return strncmp(name, "version.", 8) == 0; /* file_replace() was killed in the middle */
}

/* A directory with other things than ours in it is not taken over. */
static int check_empty(const struct store *st, struct mlr_error *err)
{
	DIR *d = file_open_dir(st->fd, ".", 0);
	struct dirent *e;
	int r = 0;

	if (!d)
		return mlr_fail_errno(err, "store '%s'", st->path);
	while (r == 0 && (e = readdir(d))) {
		if (!is_ours(e->d_name)) {
			r = mlr_fail(err, ENOTEMPTY,
				"'%s' is not a store of images and not empty ('%.100s')", st->path,
				e->d_name);
			mlr_hint(err, "name an empty or a new directory");
		}
	}
	closedir(d);
	return r;
}

/* All parts, and last the version: a store with a version is a whole store. */
static int make_parts(struct store *st, struct mlr_error *err)
{
	char version[16];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (mkdirat(st->fd, parts[i], 0755) < 0 && errno != EEXIST)
			return mlr_fail_errno(err, "create directory '%s/%s'", st->path, parts[i]);
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

static int make_new(struct store *st, struct mlr_error *err)
{
	int r = check_empty(st, err);

	if (r < 0)
		return r;
	return make_parts(st, err);
}

int store_format_check(struct store *st, int create, struct mlr_error *err)
{
	char buf[16] = "", *end;
	long version;
	auto_close int fd = openat(st->fd, "version", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 && errno == ENOENT && create)
		return make_new(st, err);
	if (fd < 0 && errno == ENOENT)
		return mlr_fail(err, ENOENT,
			"'%s' is not a store of images: it has no file 'version'", st->path);
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s/version'", st->path);

	n = file_read_full(fd, buf, sizeof(buf) - 1);
	if (n < 0)
		return mlr_fail(err, (int)-n, "read '%s/version': %s", st->path, strerror((int)-n));
	version = strtol(buf, &end, 10);
	if (end == buf || (*end != '\n' && *end != '\0') || version < 1)
		return mlr_fail(err, EPROTO, "'%s/version' holds no format number", st->path);
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

/* What mlrun 0.1's pulls that were killed have left: the caller has its lock, so none is alive. */
static void empty_tmp(struct store *st)
{
	DIR *d = file_open_dir(st->fd, "tmp", 0);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		auto_free char *path = xasprintf("tmp/%s", e->d_name);

		if (strncmp(e->d_name, "layer-", 6) == 0 || strncmp(e->d_name, "dir-", 4) == 0 ||
			strncmp(e->d_name, "cover-", 6) == 0)
			file_remove_tree(st->fd, path, NULL);
	}
	if (d)
		closedir(d);
}

/* Format 1 had one lock for the store, by flock(2); its adders have it shared. Where that does not
 * work there were none, as they refused to. */
static int wait_for_old(struct store *st, int fd, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(st, "an older mlrun, changing this store");

	while (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		int r = store_wait_nap(&w, "", err);

		if (r < 0)
			return r;
	}
	return 0;
}

int store_upgrade(struct store *st, struct mlr_error *err)
{
	auto_close int fd = -1;
	int r;

	if (st->format >= STORE_FORMAT)
		return 0;
	fd = openat(st->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return mlr_fail_errno(err, "upgrade store '%s': open its lock", st->path);
	r = wait_for_old(st, fd, err);
	if (r < 0)
		return r;
	r = store_format_check(st, 0, err); /* another may have done it meanwhile */
	if (r < 0 || st->format >= STORE_FORMAT)
		return r;
	mlr_debug("store: '%s' gets format %d", st->path, STORE_FORMAT);
	empty_tmp(st);
	r = make_parts(st, err);
	if (r < 0)
		return mlr_wrap(err, "upgrade the store");
	unlinkat(st->fd, "lock", 0);
	return 0;
}
