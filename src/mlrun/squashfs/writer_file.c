#include "squashfs/writer_file.h"

#include <sqfs/error.h>

static void file_destroy(sqfs_object_t *o)
{
	(void)o; /* the descriptor belongs to its owner */
}

static int failed(struct squashfs_file *f, int code)
{
	if (!f->error)
		f->error = code;
	return SQFS_ERROR_IO;
}

static int file_read_at(sqfs_file_t *base, sqfs_u64 offset, void *buf, size_t len)
{
	struct squashfs_file *f = (struct squashfs_file *)base;
	char *p = buf;

	while (len > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(pread(f->fd, p, len, (off_t)(f->at + offset)));

		if (n < 0)
			return failed(f, errno);
		if (n == 0)
			return SQFS_ERROR_OUT_OF_BOUNDS;
		p += n;
		len -= (size_t)n;
		offset += (sqfs_u64)n;
	}
	return 0;
}

static int file_write_at(sqfs_file_t *base, sqfs_u64 offset, const void *buf, size_t len)
{
	struct squashfs_file *f = (struct squashfs_file *)base;
	const char *p = buf;

	while (len > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(pwrite(f->fd, p, len, (off_t)(f->at + offset)));

		if (n < 0)
			return failed(f, errno);
		p += n;
		len -= (size_t)n;
		offset += (sqfs_u64)n;
	}
	if (offset > f->size)
		f->size = offset;
	return 0;
}

static sqfs_u64 file_get_size(const sqfs_file_t *base)
{
	return ((const struct squashfs_file *)base)->size;
}

static int file_truncate(sqfs_file_t *base, sqfs_u64 size)
{
	struct squashfs_file *f = (struct squashfs_file *)base;

	if (ftruncate(f->fd, (off_t)(f->at + size)) < 0)
		return failed(f, errno);
	f->size = size;
	return 0;
}

void squashfs_file_init(struct squashfs_file *f, int fd)
{
	memset(f, 0, sizeof(*f));
	f->base.base.destroy = file_destroy;
	f->base.read_at = file_read_at;
	f->base.write_at = file_write_at;
	f->base.get_size = file_get_size;
	f->base.truncate = file_truncate;
	f->fd = fd;
	f->at = (sqfs_u64)lseek(fd, 0, SEEK_END);
}

int squashfs_file_fail(
	const struct squashfs_file *f, int code, const char *doing, struct mlr_error *err)
{
	if (f->error)
		return mlr_fail(err, f->error, "%s: %s", doing, strerror(f->error));
	if (code == SQFS_ERROR_ALLOC)
		return mlr_fail(err, ENOMEM, "%s: out of memory", doing);
	return mlr_fail(err, EIO, "%s: libsquashfs fails with %d", doing, code);
}
