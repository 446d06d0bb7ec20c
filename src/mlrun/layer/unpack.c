#include "layer/unpack.h"

#include "base/filesystem.h"
#include "layer/writer.h"

#define LARGE (16u << 20) /* bytes of a file, after which free space is checked again */
#define HOLE  (16u << 10) /* bytes of zeros that are not written, at a multiple of them */

/* The state of unpacking a layer, and of its current file. */
struct unpacking {
	struct layer_writer writer;
	struct layer_recorder *recorder; /* NULL: none */
	int fd;                          /* -1 between files */
	uint64_t end;                    /* of what was written so far */
	uint64_t size;                   /* that it will have */
	uint64_t unchecked;              /* bytes written since the file system had room for more */
	int raw;                         /* its data go into the record as bytes */
};

static void unpacking_done(struct unpacking *u)
{
	fd_close(&u->fd);
	layer_writer_done(&u->writer);
	layer_recorder_free(u->recorder);
}

/* Record a file by its path, if the tree can give its data back. */
static int record_file(struct unpacking *u, const struct layer_member *m, struct mlr_error *err)
{
	char real[PATH_MAX];

	if (!m->verbatim || m->size == 0)
		return 0; /* recorded as bytes already */
	u->raw = !(m->mode & S_IRUSR) || layer_writer_real_path(&u->writer, m, real) < 0;
	return u->raw ? 0 : layer_recorder_file(u->recorder, real, m->size, err);
}

/* Give a file up before it fills the disk, once little is free and more may come. Holes take none.
 */
static int check_room(struct unpacking *u, size_t written, struct mlr_error *err)
{
	struct statvfs fs;
	uint64_t room;

	u->unchecked += written;
	if (u->unchecked < LARGE || filesystem_room(u->writer.root, &fs) < 0)
		return 0;
	u->unchecked = 0;
	room = (uint64_t)(geteuid() ? fs.f_bavail : fs.f_bfree) * fs.f_frsize;
	if (room >= 2 * LARGE || u->size <= u->end + room)
		return 0;
	return mlr_fail(err, ENOSPC, "%llu MB, and the file system has %llu MB left",
		(unsigned long long)u->size / 1000000, (unsigned long long)room / 1000000);
}

static int on_file(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	TRY(u->fd = layer_writer_file(&u->writer, m, err));
	u->end = u->unchecked = 0;
	u->size = m->size;
	u->raw = 0;
	return u->recorder ? record_file(u, m, err) : 0;
}

/* Count the bytes before the next piece that may be a hole. */
static size_t data_length(const char *buf, size_t len, uint64_t offset)
{
	for (size_t n = 0, piece; n < len; n += piece) {
		piece = HOLE - (offset + n) % HOLE;
		if (piece == HOLE && len - n >= HOLE && !buf[n] &&
			memcmp(buf + n, buf + n + 1, HOLE - 1) == 0)
			return n;
	}
	return len;
}

/* Holes of sparse files stay holes, and those that their tar has written out become holes again. */
static int on_data(void *ctx, const void *data, size_t len, uint64_t offset, struct mlr_error *err)
{
	struct unpacking *u = ctx;
	const char *buf = data;

	if (u->raw)
		TRY(layer_recorder_raw(u->recorder, data, len, err));
	while (len > 0) {
		size_t here = data_length(buf, len, offset);
		ssize_t n =
			TEMP_FAILURE_RETRY(here ? pwrite(u->fd, buf, here, (off_t)offset) : HOLE);

		if (n < 0)
			return mlr_fail_errno(
				err, "write at byte %llu", (unsigned long long)offset);
		buf += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
		if (!here)
			continue;
		u->end = offset;
		TRY(check_room(u, (size_t)n, err));
	}
	return 0;
}

static int on_file_end(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;
	auto_close int fd = take_fd(&u->fd);

	if (u->end < m->size && ftruncate(fd, (off_t)m->size) < 0)
		return mlr_fail_errno(err, "extend to %llu bytes", (unsigned long long)m->size);
	return layer_writer_file_end(&u->writer, fd, m, err);
}

static int on_name(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_writer_name(&u->writer, m, err);
}

static int on_raw(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct unpacking *u = ctx;

	return layer_recorder_raw(u->recorder, buf, len, err);
}

static const struct layer_sink sink = {
	.file = on_file,
	.data = on_data,
	.file_end = on_file_end,
	.name = on_name,
};

/* Unpack the members, then finish what depends on all of them. */
static int unpack(struct unpacking *u, layer_read_fn read, void *ctx, enum oci_compression comp,
	const struct layer_limits *limits, struct layer_result *res, struct mlr_error *err)
{
	struct layer_sink told = sink;
	struct layer_name *top;

	if (u->recorder)
		told.raw = on_raw;
	/* The top counts as used implicitly until a member names it. */
	TRY(layer_dirs_get(&u->writer.dirs, "", &top, err));
	TRY(layer_tar_read(read, ctx, comp, limits, &told, u, res, err));
	TRY(layer_writer_finish(&u->writer, err));
	return u->recorder ? layer_recorder_end(u->recorder, err) : 0;
}

void layer_result_done(struct layer_result *r)
{
	strv_done(&r->implicit);
	strv_done(&r->hiding);
	strv_done(&r->open);
	strv_done(&r->owners);
	memset(r, 0, sizeof(*r));
}

int layer_unpack_limited(layer_read_fn read, void *ctx, enum oci_compression comp, int tree_fd,
	int record_fd, const struct layer_limits *limits, struct layer_result *ret,
	struct mlr_error *err)
{
	struct layer_result res = { 0 };
	auto_call(unpacking_done) struct unpacking u = { .fd = -1 };

	layer_writer_init(&u.writer, tree_fd, limits->dir_memory);
	if (record_fd >= 0)
		TRY(layer_recorder_new(record_fd, &u.recorder, err));
	u.writer.recorder = u.recorder;
	TRY(unpack(&u, read, ctx, comp, limits, &res, err));
	layer_dirs_list(&u.writer.dirs, &res.implicit, &res.hiding);
	res.open = u.writer.dirs.open;
	u.writer.dirs.open = (struct strv)STRV_INIT;
	res.owners = u.writer.owners;
	u.writer.owners = (struct strv)STRV_INIT;
	*ret = res;
	return 0;
}

int layer_unpack(layer_read_fn read, void *ctx, enum oci_compression comp, int tree_fd,
	int record_fd, struct layer_result *ret, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;

	return layer_unpack_limited(read, ctx, comp, tree_fd, record_fd, &limits, ret, err);
}
