/* Sweeping: what store_sweep() in store/store.h does. */
#include "store/store.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/lease.h"
#include "store/lock.h"
#include "store/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TRASH_SECONDS (7 * 24 * 3600) /* an rm lives for minutes */
#define TEMP_SECONDS 3600 /* a document's temporary file lives for milliseconds */

static void remove_entry(int dir, const char *name)
{
	struct mlr_error err = MLR_ERROR_INIT;

	mlr_debug("store: removing '%s', left by a process that ended", name);
	if (file_remove_tree(dir, name, &err) < 0)
		mlr_debug("store: %s", err.text);
}

/* "trash.<n>.<process>": what an rm that was killed had already renamed away. */
static void sweep_trash(int dir, const char *name, const struct store_process *self)
{
	const char *dot = strchr(name + strlen("trash."), '.');
	struct store_process p;
	struct stat sb;
	int alive;

	if (!dot || store_process_parse(dot + 1, &p) < 0)
		return;
	alive = store_process_alive(&p, self);
	if (alive < 0) /* out of sight; renaming it set its change time */
		alive = fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			time(NULL) - sb.st_ctime < TRASH_SECONDS;
	if (!alive)
		remove_entry(dir, name);
}

/* "<kind>-<hex>.<host>.<pid>.<random>", a producer's work, or its "<kind>-<hex>.lock": nobody's
 * when the lock is to be had. */
static void sweep_work(
	struct store *st, int dir, const char *name, const struct store_process *self)
{
	const char *dot = strchr(name, '.');
	size_t host = strlen(self->host);
	auto_free char *lock = NULL;
	int fd, mine;

	if (!dot)
		return;
	mine = strncmp(dot + 1, self->host, host) == 0 && dot[1 + host] == '.';
	if (!mine && strcmp(dot, ".lock") != 0)
		return;
	lock = xasprintf("tmp/%.*s.lock", (int)(dot - name), name);
	fd = store_lock(st, lock, STORE_LOCK_TRY, "at work", NULL);
	if (fd < 0)
		return;
	if (mine)
		remove_entry(dir, name);
	store_lock_remove(st, lock, &fd);
}

/* Temporary names of file_replace() that a kill left beside the documents. */
static void sweep_temps(struct store *st, const char *path)
{
	int fd = openat(store_fd(st), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat sb;

	while (d && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len < 4 || strcmp(e->d_name + len - 4, ".tmp") != 0)
			continue;
		if (fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			time(NULL) - sb.st_mtime > TEMP_SECONDS)
			remove_entry(dirfd(d), e->d_name);
	}
	if (d)
		closedir(d);
}

void store_sweep(struct store *st)
{
	struct store_process self;
	int fd = openat(store_fd(st), "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d && store_process_self(&self) == 0) {
		while ((e = readdir(d))) {
			if (strncmp(e->d_name, "trash.", 6) == 0)
				sweep_trash(dirfd(d), e->d_name, &self);
			else if (e->d_name[0] != '.')
				sweep_work(st, dirfd(d), e->d_name, &self);
		}
	}
	if (d)
		closedir(d);
	sweep_temps(st, "images");
	sweep_temps(st, "facts");
	sweep_temps(st, "blobs/sha256");
	store_lease_sweep(st);
}
