#include "store/store.h"

#include "base/config.h"
#include "store/format.h"
#include "store/guard.h"
#include "store/handle.h"
#include "store/hold.h"
#include "store/tree.h"
#include "store/stores.h"

static int default_path(char **ret, struct mlr_error *err)
{
	auto_call(config_done) struct config c = { 0 };
	const char *dir = getenv("MLRUN_STORE");
	/* With MLRUN_STORE set, a broken configuration file does not matter. */

	TRY(dir && *dir ? 0 : config_load(&c, err));
	return store_place(&c, ret, NULL, err);
}

static char *absolute(char *path, struct mlr_error *err)
{
	auto_free char *rel = path, *cwd = NULL;

	if (path[0] == '/')
		return take_ptr(&rel);
	cwd = getcwd(NULL, 0);
	if (!cwd) {
		mlr_fail_errno(err, "the current directory, for store '%s'", path);
		return NULL;
	}
	return xasprintf("%s/%s", cwd, rel);
}

/* An older mlrun obeyed the umask, so its stores may be open to a group: the upgrade closes them
 * before the last check. */
static int check(struct store *st, int create, struct mlr_error *err)
{
	struct stat top;
	int ours, r = 0;

	if (fstat(st->fd, &top) < 0)
		return mlr_fail_errno(err, "store '%s'", st->path);
	ours = top.st_uid == geteuid();
	if (!ours)
		/* New trees would belong to us, and the store's owner could not delete them. */
		r = create ? store_refuse_user(st, top.st_uid, "who alone may add to it", err)
			   : store_guard(st, &top, err);
	if (r == 0)
		r = store_format_check(st, create, err);
	if (r == 0)
		r = store_check_mark(st, err);
	if (r < 0 || !ours || (create && st->format < STORE_FORMAT))
		return r;
	if (create && fstat(st->fd, &top) < 0) /* store_format_check() may have closed it */
		return mlr_fail_errno(err, "store '%s'", st->path);
	return store_guard(st, &top, err);
}

static int open_top(struct store *st, int create, struct mlr_error *err)
{
	st->fd = open(st->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->fd < 0 && errno == ENOENT && create) {
		int r = store_format_make(st, err);

		if (r < 0)
			return mlr_hint(err, "--store or MLRUN_STORE names another place");
		st->fd = open(st->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (st->fd < 0)
		return mlr_fail_errno(err, "open store '%s'", st->path);
	return check(st, create, err);
}

int store_open(const char *dir, int create, struct store **ret, struct mlr_error *err)
{
	auto_store struct store *st = NULL;
	char *path = NULL;
	int r = 0;

	if (dir && !*dir) {
		mlr_fail(err, EINVAL, "the store's name is empty");
		mlr_hint(err, "name a directory with --store, or leave it out");
		return -EINVAL;
	}
	if (dir)
		path = xstrdup(dir);
	else
		r = default_path(&path, err);
	TRY(r);
	st = xcalloc(1, sizeof(*st));
	st->fd = -1;
	pthread_mutex_init(&st->mutex, NULL);
	st->path = absolute(path, err);
	if (!st->path)
		return err ? -err->code : -ENOENT;
	TRY(open_top(st, create, err));
	*ret = take_ptr(&st);
	return 0;
}

void store_close(struct store *st)
{
	if (!st)
		return;
	store_hold_close(st->hold);
	fd_close(&st->fd);
	pthread_mutex_destroy(&st->mutex);
	free(st->path);
	free(st);
}

int store_fd(const struct store *st)
{
	return st->fd;
}

const char *store_path(const struct store *st)
{
	return st->path;
}

void store_set_cancelled(struct store *st, int (*cancelled)(void *ctx), void *ctx)
{
	st->cancelled = cancelled;
	st->cancelled_ctx = ctx;
}

int store_hold(struct store *st, struct mlr_error *err)
{
	return store_hold_only(st, NULL, err);
}

int store_hold_only(struct store *st, const struct strv *digests, struct mlr_error *err)
{
	int r;

	pthread_mutex_lock(&st->mutex);
	r = store_hold_set(st, digests, err);
	pthread_mutex_unlock(&st->mutex);
	return r;
}

int store_hold_check(struct store *st, struct mlr_error *err)
{
	return store_hold_is_lost(st) ? store_hold_lost(st, err) : 0;
}
