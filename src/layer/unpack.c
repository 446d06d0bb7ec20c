#include "layer/unpack.h"

#include "base/cleanup.h"
#include "layer/tar.h"
#include "layer/writer.h"

#include <errno.h>
#include <string.h>

/* One layer being unpacked, and the file of it at hand. */
struct unpacking {
	struct layer_writer writer;
	int fd;       /* -1 between files */
	uint64_t end; /* of the data so far */
};

static void unpacking_done(struct unpacking *u)
{
	if (u->fd >= 0)
		close(u->fd);
	layer_writer_done(&u->writer);
}

static int on_file(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;
	int fd = layer_writer_file(&u->writer, m, err);

	if (fd < 0)
		return fd;
	u->fd = fd;
	u->end = 0;
	return 0;
}

/* What a sparse file leaves out stays a hole. */
static int on_data(void *ctx, const void *data, size_t len, uint64_t offset, struct mlr_error *err)
{
	struct unpacking *u = ctx;
	const char *buf = data;

	u->end = offset + len;
	while (len > 0) {
		ssize_t n = pwrite(u->fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mlr_fail_errno(
				err, "write at byte %llu", (unsigned long long)offset);
		buf += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static int on_file_end(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;
	auto_close int fd = take_fd(&u->fd);

	if (u->end < m->size && ftruncate(fd, (off_t)m->size) < 0)
		return mlr_fail_errno(err, "extend to %llu bytes", (unsigned long long)m->size);
	return layer_writer_file_end(fd, m, err);
}

static int on_dir(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_dir(&u->writer, m, err);
}

static int on_symlink(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_symlink(&u->writer, m, err);
}

static int on_link(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_link(&u->writer, m, err);
}

static int on_fifo(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_fifo(&u->writer, m, err);
}

static int on_whiteout(void *ctx, const char *path, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_whiteout(&u->writer, path, err);
}

static int on_opaque(void *ctx, const char *path, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_opaque(&u->writer, path, err);
}

static const struct layer_sink sink = {
	.file = on_file,
	.data = on_data,
	.file_end = on_file_end,
	.dir = on_dir,
	.symlink = on_symlink,
	.link = on_link,
	.fifo = on_fifo,
	.whiteout = on_whiteout,
	.opaque = on_opaque,
};

void layer_result_done(struct layer_result *r)
{
	strv_done(&r->implicit);
	strv_done(&r->hiding);
	memset(r, 0, sizeof(*r));
}

int layer_unpack_limited(layer_read_fn read, void *ctx, enum layer_compression comp, int tree_fd,
	const struct layer_limits *limits, struct layer_result *ret, struct mlr_error *err)
{
	struct layer_result res = LAYER_RESULT_INIT;
	auto_call(unpacking_done) struct unpacking u = { .fd = -1 };
	int r;

	layer_writer_init(&u.writer, tree_fd, limits->dir_memory);
	/* The top, too, is used without having been named, until it is. */
	r = layer_dirs_imply(&u.writer.dirs, "", err);
	if (r == 0)
		r = layer_tar_read(read, ctx, comp, limits, &sink, &u, &res, err);
	if (r == 0)
		r = layer_writer_finish(&u.writer, err);
	if (r < 0)
		return r;
	layer_dirs_list(&u.writer.dirs, &res.implicit, &res.hiding);
	*ret = res;
	return 0;
}

int layer_unpack(layer_read_fn read, void *ctx, enum layer_compression comp, int tree_fd,
	struct layer_result *ret, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;

	return layer_unpack_limited(read, ctx, comp, tree_fd, &limits, ret, err);
}
