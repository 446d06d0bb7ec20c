#include "store/trash.h"

#include "base/base.h"

int store_trash(struct store *st, const char *path, char to[STORE_WORK_PATH], struct mlr_error *err)
{
	int fd = store_fd(st), r = store_work_path("trash", to, err);

	if (r < 0)
		return r;
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
