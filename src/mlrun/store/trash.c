#include "store/trash.h"

#include "store/hold.h"

int store_trash(struct store *st, const char *path, char to[STORE_WORK_PATH], struct mlr_error *err)
{
	int fd = store_fd(st), r = store_work_path("trash", to, err);

	TRY(r);
	if (renameat(fd, path, fd, to) == 0)
		return 0;
	if (errno == ENOENT)
		return mlr_fail(err, ENOENT, "'%s/%s' is not there", store_path(st), path);
	return mlr_fail_errno(err, "rename '%s/%s' to '%s'", store_path(st), path, to);
}

int store_discard(struct store *st, const char *path, struct mlr_error *err)
{
	char to[STORE_WORK_PATH];
	int r = store_trash(st, path, to, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return file_remove_tree(store_fd(st), to, err);
}

int store_scratch_make(struct store *st, const char *what, char **ret, struct mlr_error *err)
{
	auto_free char *rel = NULL;
	char random[RANDOM_HEX_SIZE];

	TRY(store_hold(st, err));
	random_hex(random);
	rel = xasprintf("tmp/%s-%s.%s", what, random, store_hold_name(st));
	if (mkdirat(store_fd(st), rel, 0700) < 0)
		return mlr_fail_errno(err, "make '%s/%s'", store_path(st), rel);
	*ret = xasprintf("%s/%s", store_path(st), rel);
	return 0;
}

void store_scratch_remove(struct store *st, const char *path)
{
	if (path)
		store_discard(st, path + strlen(store_path(st)) + 1, NULL);
}
