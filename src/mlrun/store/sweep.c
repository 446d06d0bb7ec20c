/* Sweeping: implements store_sweep() and store_has_work() of store/store.h. */

#include "store/hold.h"
#include "store/lease.h"
#include "store/lock.h"
#include "store/blob.h"
#include "store/trash.h"
#include "store/unsynced.h"

#define HOLD_SECONDS  3600            /* for a hold of another host without a heartbeat */
#define TRASH_SECONDS (7 * 24 * 3600) /* an rm takes minutes */
#define TEMP_SECONDS  3600            /* a temporary file exists for milliseconds */

static void remove_entry(int dir, const char *name)
{
	struct mlr_error err = MLR_ERROR_INIT;

	mlr_debug("store: removing '%s', left by a process that ended", name);
	if (file_remove_tree(dir, name, &err) < 0)
		mlr_debug("store: %s", err.text);
}

/* Remove entries that name a process, if it has ended, or, if it cannot be seen from here, after
 * some time: "trash.<n>.<process>" of a killed rm, "hold.a-<hex>.<process>" before it moves to
 * holds/, "container.<n>.<process>" before it moves to containers/, and "probe.<n>.<process>" of a
 * file system's probe. */
static void sweep_process(
	struct store *st, int dir, const char *name, int seconds, const struct store_process *self)
{
	const char *dot = strchr(strchr(name, '.') + 1, '.');
	struct store_process p;
	struct stat sb;
	int alive;

	if (!dot || store_process_parse(dot + 1, &p) < 0)
		return;
	alive = store_process_judge(st, &p, self);
	if (alive < 0) /* its change time is that of the rename */
		alive = fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			time(NULL) - sb.st_ctime < seconds;
	if (!alive)
		remove_entry(dir, name);
}

/* Remove work, "<what>-<hex>.<hold>", whose hold is gone. */
static void sweep_work(struct store *st, const char *name)
{
	const char *dot = strchr(name, '.');
	auto_free char *path = xasprintf("tmp/%s", name);

	if (!dot)
		return;
	if (strcmp(dot, ".lock") == 0) {
		store_lock_sweep(st, path, HOLD_SECONDS);
		return;
	}
	if (dot[1] != 'a' && dot[1] != 'r')
		return;
	if (dot[2] != '-' || store_hold_alive(st, dot + 1, HOLD_SECONDS))
		return;
	mlr_debug("store: removing '%s', left by a process that ended", path);
	store_discard(st, path, NULL);
}

/* Remove an old spool, "spool-<hex>"; a pull may continue a recent one. */
static void sweep_spool(struct store *st, int dir, const char *name)
{
	auto_free char *lock = xasprintf("tmp/%s.lock", name);
	struct stat sb;

	store_lock_sweep(st, lock, HOLD_SECONDS);
	if (faccessat(store_fd(st), lock, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
		fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
		time(NULL) - sb.st_mtime > STORE_SPOOL_SECONDS)
		remove_entry(dir, name);
}

static void sweep_old(int dir, const char *name)
{
	struct stat sb;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
		time(NULL) - sb.st_ctime > TEMP_SECONDS)
		remove_entry(dir, name);
}

/* Remove "broken.<16 hex>", a lock that a killed process was removing. */
static void sweep_broken(struct store *st, int dir, const char *name)
{
	auto_free char *path = xasprintf("tmp/%s", name);

	store_lock_sweep(st, path, HOLD_SECONDS);
	if (unlinkat(dir, name, AT_REMOVEDIR) < 0) /* it has other files */
		sweep_old(dir, name);
}

/* Remove holds of processes that ended; adders' would pile up. */
static void sweep_holds(struct store *st)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "holds", 0);

	for (struct dirent *e; (e = file_next(d));)
		if (strchr("ar", e->d_name[0]) && e->d_name[1] == '-')
			store_hold_alive(st, e->d_name, HOLD_SECONDS);
}

/* Remove temporary files that killed file_replace() calls left beside the documents. */
static void sweep_temps(struct store *st, const char *path)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), path, 0);
	struct stat sb;

	for (struct dirent *e; (e = file_next(d));) {
		size_t len = strlen(e->d_name);

		if (len < 4 || strcmp(e->d_name + len - 4, ".tmp") != 0)
			continue;
		if (fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			time(NULL) - sb.st_mtime > TEMP_SECONDS)
			remove_entry(dirfd(d), e->d_name);
	}
}

int store_has_work(struct store *st)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "tmp", 0);
	int found = 0;

	for (struct dirent *e; !found && (e = file_next(d));)
		found = e->d_name[0] != '.';
	return found;
}

void store_sweep(struct store *st)
{
	struct store_process self;
	auto_dir DIR *d = file_open_dir(store_fd(st), "tmp", 0);

	if (d && store_process_self(&self) == 0) {
		for (struct dirent *e; (e = file_next(d));) {
			if (strncmp(e->d_name, "trash.", 6) == 0)
				sweep_process(st, dirfd(d), e->d_name, TRASH_SECONDS, &self);
			else if (strncmp(e->d_name, "hold.", 5) == 0 ||
				strncmp(e->d_name, "probe.", 6) == 0 ||
				strncmp(e->d_name, "container.", 10) == 0)
				sweep_process(st, dirfd(d), e->d_name, TEMP_SECONDS, &self);
			else if (strncmp(e->d_name, "spool-", 6) == 0 && !strchr(e->d_name, '.'))
				sweep_spool(st, dirfd(d), e->d_name);
			else if (strncmp(e->d_name, "broken.", 7) == 0)
				sweep_broken(st, dirfd(d), e->d_name);
			else if (e->d_name[0] != '.')
				sweep_work(st, e->d_name);
		}
	}
	sweep_holds(st);
	sweep_temps(st, ".");
	sweep_temps(st, "tmp"); /* of temp_open(), on file systems where its files need names */
	sweep_temps(st, "images");
	sweep_temps(st, "facts");
	sweep_temps(st, "blobs/sha256");
	unsynced_sweep(st);
	store_lease_sweep(st);
}
