#include "layer/codec.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

struct zstd {
	struct layer_inflate base;
	ZSTD_DCtx *ctx;
	int inside;      /* a frame has begun and not ended */
	uint64_t frames; /* finished ones, skippable ones too */
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

	/* Between frames an empty call would begin one. Inside, output may wait for room alone. */
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

struct layer_inflate *layer_inflate_zstd(void)
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
