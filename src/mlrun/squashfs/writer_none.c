/* squashfs/writer.h without libsquashfs. */
#include "squashfs/writer.h"

int squashfs_writer_available(void)
{
	return 0;
}

int squashfs_writer_new(int fd, enum oci_compression how, size_t layers, int64_t mtime,
	struct squashfs_writer **ret, struct mlr_error *err)
{
	mlr_fail(err, ENOTSUP,
		"this mlrun was built without libsquashfs and can write no squashfs image");
	return mlr_hint(err, "--format=dir keeps the image as one tree of files");
}

void squashfs_writer_free(struct squashfs_writer *s)
{
}

int squashfs_writer_layer(struct squashfs_writer *s, struct mlr_error *err)
{
	return mlr_fail(err, ENOTSUP, "no libsquashfs");
}

const struct layer_sink squashfs_writer_sink;

int squashfs_writer_apply(struct squashfs_writer *s, struct mlr_error *err)
{
	return squashfs_writer_layer(s, err);
}

int squashfs_writer_lacks(const struct squashfs_writer *s, size_t i)
{
	return 0;
}

int squashfs_writer_layer_again(struct squashfs_writer *s, size_t i, struct mlr_error *err)
{
	return squashfs_writer_layer(s, err);
}

int squashfs_writer_finish(struct squashfs_writer *s, struct mlr_error *err)
{
	return squashfs_writer_layer(s, err);
}
