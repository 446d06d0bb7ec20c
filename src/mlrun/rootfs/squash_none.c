/* rootfs/squash.h without libsquashfs. */
#include "rootfs/squash.h"

#include <errno.h>

int rootfs_squash_available(void)
{
	return 0;
}

int rootfs_squash_new(
	int fd, size_t layers, int64_t mtime, struct squash **ret, struct mlr_error *err)
{
	(void)fd;
	(void)layers;
	(void)mtime;
	(void)ret;
	mlr_fail(err, ENOTSUP,
		"this mlrun was built without libsquashfs and can write no squashfs image");
	return mlr_hint(err, "--format=dir keeps the image as one tree of files");
}

void rootfs_squash_free(struct squash *s)
{
	(void)s;
}

int rootfs_squash_layer(struct squash *s, struct mlr_error *err)
{
	(void)s;
	return mlr_fail(err, ENOTSUP, "no libsquashfs");
}

const struct layer_sink rootfs_squash_sink;

int rootfs_squash_apply(struct squash *s, struct mlr_error *err)
{
	return rootfs_squash_layer(s, err);
}

int rootfs_squash_lacks(const struct squash *s, size_t i)
{
	(void)s;
	(void)i;
	return 0;
}

int rootfs_squash_layer_again(struct squash *s, size_t i, struct mlr_error *err)
{
	(void)i;
	return rootfs_squash_layer(s, err);
}

int rootfs_squash_finish(struct squash *s, struct mlr_error *err)
{
	return rootfs_squash_layer(s, err);
}
