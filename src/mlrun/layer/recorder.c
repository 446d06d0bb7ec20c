#include "layer/recorder.h"

#include "layer/record.h"

#include <zstd.h>

/* The fastest level that compresses headers well: they are mostly zeros, and similar to each other.
 */
#define LEVEL       1
#define VARINT_MAX  10
#define BUFFER_SIZE (128u << 10)
#define KEEP_MORE   (64u << 20) /* bytes to keep beyond those of the layer's files */

struct layer_recorder {
	int fd;
	ZSTD_CCtx *ctx;
	uint64_t bytes; /* of the tar so far */
	uint64_t filed; /* of these, in files */
	uint64_t kept;
	char *out; /* BUFFER_SIZE */
	char *in;  /* the same; libzstd prefers large pieces to the small ones that are put */
	size_t in_len;
};

static int compress(struct layer_recorder *r, const void *buf, size_t len, ZSTD_EndDirective mode,
	struct mlr_error *err)
{
	ZSTD_inBuffer in = { buf, len, 0 };
	size_t left;
	int e = 0;

	do {
		ZSTD_outBuffer out = { r->out, BUFFER_SIZE, 0 };

		left = ZSTD_compressStream2(r->ctx, &out, &in, mode);
		if (ZSTD_isError(left))
			return mlr_fail(err, EIO, "compress the layer's record: %s",
				ZSTD_getErrorName(left));
		if (out.pos > 0)
			e = file_write_all(r->fd, r->out, out.pos);
		if (e < 0)
			return mlr_result(err, e, "write the layer's record");
	} while (in.pos < in.size || (mode == ZSTD_e_end && left > 0));
	return 0;
}

static int put(struct layer_recorder *r, const void *buf, size_t len, struct mlr_error *err)
{
	int e = 0;

	if (len > BUFFER_SIZE - r->in_len) {
		e = compress(r, r->in, r->in_len, ZSTD_e_continue, err);
		r->in_len = 0;
	}
	if (e < 0 || len > BUFFER_SIZE)
		return e < 0 ? e : compress(r, buf, len, ZSTD_e_continue, err);
	memcpy(r->in + r->in_len, buf, len);
	r->in_len += len;
	return 0;
}

static size_t varint(unsigned char *to, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (unsigned char)(v | 0x80);
	to[n++] = (unsigned char)v;
	return n;
}

/* Put a stretch's head; path may be NULL. */
static int put_head(
	struct layer_recorder *r, char kind, uint64_t size, const char *path, struct mlr_error *err)
{
	unsigned char head[1 + 2 * VARINT_MAX];
	size_t len = 1 + varint(head + 1, size);

	head[0] = (unsigned char)kind;
	if (path)
		len += varint(head + len, strlen(path));
	TRY(put(r, head, len, err));
	return path ? put(r, path, strlen(path), err) : 0;
}

void layer_recorder_free(struct layer_recorder *r)
{
	if (!r)
		return;
	ZSTD_freeCCtx(r->ctx);
	free(r->out);
	free(r->in);
	free(r);
}

int layer_recorder_new(int fd, struct layer_recorder **ret, struct mlr_error *err)
{
	struct layer_recorder *r = xcalloc(1, sizeof(*r));
	int e;

	r->fd = fd;
	r->out = xmalloc(BUFFER_SIZE);
	r->in = xmalloc(BUFFER_SIZE);
	r->ctx = ZSTD_createCCtx();
	if (!r->ctx) {
		layer_recorder_free(r);
		return mlr_fail(err, ENOMEM, "no memory to compress the layer's record with");
	}
	ZSTD_CCtx_setParameter(r->ctx, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(r->ctx, ZSTD_c_checksumFlag, 1);
	e = put(r, LAYER_RECORD_MAGIC, strlen(LAYER_RECORD_MAGIC), err);
	if (e < 0) {
		layer_recorder_free(r);
		return e;
	}
	*ret = r;
	return 0;
}

int layer_recorder_raw(struct layer_recorder *r, const void *buf, size_t len, struct mlr_error *err)
{
	r->bytes += len;
	TRY(put_head(r, 'R', len, NULL, err));
	return put(r, buf, len, err);
}

int layer_recorder_file(
	struct layer_recorder *r, const char *real, uint64_t size, struct mlr_error *err)
{
	r->bytes += size;
	r->filed += size;
	return put_head(r, 'F', size, real, err);
}

static int keep_file(struct layer_recorder *r, int dir, const char *name, const char *real,
	const struct stat *sb, struct mlr_error *err)
{
	auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_free char *buf = xmalloc(BUFFER_SIZE);
	uint64_t left = (uint64_t)sb->st_size;

	if (fd < 0)
		return mlr_fail_errno(err, "read '%s' for the layer's record", real);
	r->kept += left;
	if (r->kept > r->filed + KEEP_MORE)
		return mlr_fail(err, EFBIG,
			"its record would keep more bytes of replaced files than the layer has");
	TRY(put_head(r, 'D', left, real, err));
	while (left > 0) {
		ssize_t n = file_read_full(fd, buf, left < BUFFER_SIZE ? left : BUFFER_SIZE);

		if (n <= 0)
			return mlr_fail(err, n < 0 ? (int)-n : EIO,
				"read '%s' for the layer's record: %s", real,
				n < 0 ? strerror((int)-n) : "it has become shorter");
		TRY(put(r, buf, (size_t)n, err));
		left -= (uint64_t)n;
	}
	return 0;
}

static int keep_dir(struct layer_recorder *r, int dir, const char *name, const char *real,
	struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(dir, name, O_NOFOLLOW);

	if (!d)
		return mlr_fail_errno(err, "read directory '%s' for the layer's record", real);
	for (struct dirent *e; (e = file_next(d));) {
		auto_free char *path = xasprintf("%s%s%s", real, *real ? "/" : "", e->d_name);

		TRY(layer_recorder_keep(r, dirfd(d), e->d_name, path, err));
	}
	return 0;
}

int layer_recorder_keep(struct layer_recorder *r, int dir, const char *name, const char *real,
	struct mlr_error *err)
{
	struct stat sb;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '%s' for the layer's record", real);
	if (S_ISDIR(sb.st_mode))
		return keep_dir(r, dir, name, real, err);
	/* Data that the owner may not read were recorded as bytes. */
	if (S_ISREG(sb.st_mode) && sb.st_size > 0 && (sb.st_mode & S_IRUSR))
		return keep_file(r, dir, name, real, &sb, err);
	return 0;
}

int layer_recorder_end(struct layer_recorder *r, struct mlr_error *err)
{
	TRY(put_head(r, 'E', r->bytes, NULL, err));
	return compress(r, r->in, r->in_len, ZSTD_e_end, err);
}
