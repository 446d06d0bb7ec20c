#include "layer/blocks.h"

#include <zstd.h>
#include <zstd_errors.h>

#define LEVEL 3
#define CHUNK (256u << 10)

struct zstd {
	struct layer_inflate base;
	ZSTD_DCtx *ctx;
	int inside;      /* a frame is incomplete */
	uint64_t frames; /* complete ones, skippable ones included */
};

static int failed(const struct zstd *z, size_t code, struct mlr_error *err)
{
	switch (ZSTD_getErrorCode(code)) {
	case ZSTD_error_prefix_unknown:
		if (z->frames > 0 && !z->inside)
			return mlr_fail(err, EBADMSG, "garbage after the end of the zstd stream");
		return mlr_fail(err, EBADMSG, "not a zstd stream");
	case ZSTD_error_frameParameter_windowTooLarge:
		return mlr_fail(err, EFBIG,
			"the zstd stream asks for a window larger than the %d MiB allowed",
			1 << (LAYER_ZSTD_WINDOW_LOG - 20));
	case ZSTD_error_memory_allocation:
		return mlr_fail(err, ENOMEM, "no memory for the window of the zstd stream");
	default:
		return mlr_fail(
			err, EBADMSG, "the zstd stream is damaged: %s", ZSTD_getErrorName(code));
	}
}

static int zstd_run(struct layer_inflate *base, const uint8_t **in, size_t *in_len, uint8_t **out,
	size_t *room, struct mlr_error *err)
{
	struct zstd *z = (struct zstd *)base;
	ZSTD_inBuffer from = { *in, *in_len, 0 };
	ZSTD_outBuffer to = { *out, *room, 0 };
	size_t r = 0;

	/* Between frames a call without input would start a frame. Within one, output may remain
	 * without input. */
	while (from.pos < from.size || (z->inside && to.pos < to.size)) {
		size_t in_was = from.pos, out_was = to.pos;

		r = ZSTD_decompressStream(z->ctx, &to, &from);
		if (ZSTD_isError(r))
			return failed(z, r, err);
		z->inside = r != 0;
		z->frames += r == 0;
		if (from.pos == in_was && to.pos == out_was)
			break;
	}
	*in += from.pos;
	*in_len -= from.pos;
	*out += to.pos;
	*room -= to.pos;
	return 0;
}

static int zstd_end(const struct layer_inflate *base, struct mlr_error *err)
{
	const struct zstd *z = (const struct zstd *)base;

	if (z->inside || z->frames == 0)
		return mlr_fail(err, EBADMSG, "the zstd stream ends too early");
	return 0;
}

static void zstd_free(struct layer_inflate *base)
{
	struct zstd *z = (struct zstd *)base;

	ZSTD_freeDCtx(z->ctx);
	free(z);
}

static struct layer_inflate *inflate_new(void)
{
	static const struct layer_inflate_ops ops = { zstd_run, zstd_end, zstd_free };
	struct zstd *z = xcalloc(1, sizeof(*z));

	z->base.ops = &ops;
	z->ctx = ZSTD_createDCtx();
	if (!z->ctx) {
		mlr_oom();
		abort();
	}
	ZSTD_DCtx_setParameter(z->ctx, ZSTD_d_windowLogMax, LAYER_ZSTD_WINDOW_LOG);
	return &z->base;
}

struct packer {
	struct layer_deflate base;
	ZSTD_CCtx *ctx;
	unsigned char out[CHUNK];
};

static int packer_run(struct layer_deflate *base, const void *buf, size_t len, int end,
	layer_write_fn write, void *ctx, struct mlr_error *err)
{
	struct packer *p = (struct packer *)base;
	ZSTD_inBuffer in = { buf, len, 0 };
	size_t left;
	int r;

	do {
		ZSTD_outBuffer out = { p->out, sizeof(p->out), 0 };

		left = ZSTD_compressStream2(p->ctx, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return mlr_fail(err, EIO, "compress: %s", ZSTD_getErrorName(left));
		r = write(ctx, p->out, out.pos, err);
	} while (r == 0 && (end ? left > 0 : in.pos < in.size));
	return r;
}

static void packer_free(struct layer_deflate *base)
{
	struct packer *p = (struct packer *)base;

	ZSTD_freeCCtx(p->ctx);
	free(p);
}

/* Each frame has a checksum. */
static struct layer_deflate *deflate_new(void)
{
	static const struct layer_deflate_ops ops = { packer_run, packer_free };
	struct packer *p = xcalloc(1, sizeof(*p));

	p->base.ops = &ops;
	p->ctx = ZSTD_createCCtx();
	if (!p->ctx) {
		mlr_oom();
		abort();
	}
	ZSTD_CCtx_setParameter(p->ctx, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(p->ctx, ZSTD_c_checksumFlag, 1);
	/* A failure means a library without threads. One worker gives the same bytes as many. */
	ZSTD_CCtx_setParameter(p->ctx, ZSTD_c_nbWorkers, (int)layer_blocks_cores());
	return &p->base;
}

/* RFC 8878, 3.1.1; a frame to be skipped may come first (3.1.2). */
static int is_magic(const unsigned char *b, size_t n)
{
	return n >= 4 &&
		((b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd) ||
			((b[0] & 0xf0) == 0x50 && b[1] == 0x2a && b[2] == 0x4d && b[3] == 0x18));
}

const struct layer_codec layer_zstd = { is_magic, inflate_new, deflate_new };
