#include "layer/record_reader.h"

#include "base/base.h"
#include "layer/record.h"

#define BUFFER_SIZE (128u << 10)
#define WINDOW_LOG  23 /* larger than the writer's, and still little memory */

int record_reader_init(struct record_reader *r, int fd, struct mlr_error *err)
{
	memset(r, 0, sizeof(*r));
	r->fd = fd;
	r->in = xmalloc(BUFFER_SIZE);
	r->out = xmalloc(BUFFER_SIZE);
	r->input.src = r->in;
	r->ctx = ZSTD_createDCtx();
	if (!r->ctx)
		return mlr_fail(err, ENOMEM, "no memory to decompress the layer's record with");
	ZSTD_DCtx_setParameter(r->ctx, ZSTD_d_windowLogMax, WINDOW_LOG);
	return 0;
}

void record_reader_done(struct record_reader *r)
{
	ZSTD_freeDCtx(r->ctx);
	free(r->in);
	free(r->out);
	memset(r, 0, sizeof(*r));
}

void record_reader_rewind(struct record_reader *r)
{
	ZSTD_DCtx_reset(r->ctx, ZSTD_reset_session_only);
	r->at = 0;
	r->input.pos = r->input.size = 0;
	r->taken = r->filled = 0;
	r->position = 0;
	r->frame_ended = 0;
}

static int read_more(struct record_reader *r, struct mlr_error *err)
{
	ssize_t n;

	do
		n = pread(r->fd, r->in, BUFFER_SIZE, r->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return mlr_fail_errno(err, "read the layer's record");
	if (n == 0)
		return mlr_fail(err, EPROTO, "the layer's record is cut short");
	r->at += n;
	r->input.size = (size_t)n;
	r->input.pos = 0;
	return 0;
}

/* Refill out. Returns 1, or 0 at the end of the frame. */
static int refill(struct record_reader *r, struct mlr_error *err)
{
	ZSTD_outBuffer to = { r->out, BUFFER_SIZE, 0 };

	while (to.pos == 0 && !r->frame_ended) {
		size_t left = ZSTD_decompressStream(r->ctx, &to, &r->input);

		if (ZSTD_isError(left))
			return mlr_fail(err, EPROTO, "the layer's record is damaged: %s",
				ZSTD_getErrorName(left));
		r->frame_ended = left == 0;
		if (to.pos == 0 && !r->frame_ended)
			TRY(read_more(r, err));
	}
	r->taken = 0;
	r->filled = to.pos;
	return to.pos > 0;
}

ssize_t record_take_some(
	struct record_reader *r, uint64_t max, const uint8_t **ret, struct mlr_error *err)
{
	int e = r->taken < r->filled ? 1 : refill(r, err);
	size_t n;

	TRY(e);
	if (e == 0)
		return mlr_fail(err, EPROTO, "the layer's record ends too early");
	n = r->filled - r->taken < max ? r->filled - r->taken : (size_t)max;
	*ret = r->out + r->taken;
	r->taken += n;
	r->position += n;
	return (ssize_t)n;
}

int record_take(struct record_reader *r, void *buf, size_t len, struct mlr_error *err)
{
	const uint8_t *some = NULL;
	uint8_t *to = buf;

	while (len > 0) {
		ssize_t n = record_take_some(r, len, &some, err);

		if (n < 0)
			return (int)n;
		memcpy(to, some, (size_t)n);
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

int record_pass_over(struct record_reader *r, uint64_t len, struct mlr_error *err)
{
	const uint8_t *some;

	while (len > 0) {
		ssize_t n = record_take_some(r, len, &some, err);

		if (n < 0)
			return (int)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int take_varint(struct record_reader *r, uint64_t *ret, struct mlr_error *err)
{
	uint64_t v = 0;
	uint8_t b = 0;

	for (int shift = 0; shift < 63; shift += 7) {
		TRY(record_take(r, &b, 1, err));
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*ret = v;
			return 0;
		}
	}
	return mlr_fail(err, EPROTO, "the layer's record has a number too large");
}

static int take_path(struct record_reader *r, char path[PATH_MAX], struct mlr_error *err)
{
	uint64_t len;

	TRY(take_varint(r, &len, err));
	if (len == 0 || len >= PATH_MAX)
		return mlr_fail(err, EPROTO, "the layer's record has a path of %llu bytes",
			(unsigned long long)len);
	TRY(record_take(r, path, (size_t)len, err));
	path[len] = '\0';
	if (strlen(path) != len)
		return mlr_fail(err, EPROTO, "the layer's record has a path with a NUL in it");
	return 0;
}

int record_next(struct record_reader *r, struct record_stretch *s, struct mlr_error *err)
{
	TRY(record_take(r, &s->kind, 1, err));
	if (!strchr("RFDE", s->kind ? s->kind : '?'))
		return mlr_fail(err, EPROTO,
			"the layer's record has a stretch of unknown kind 0x%02x",
			(unsigned char)s->kind);
	TRY(take_varint(r, &s->size, err));
	return s->kind == 'F' || s->kind == 'D' ? take_path(r, s->path, err) : 0;
}

int record_take_magic(struct record_reader *r, struct mlr_error *err)
{
	char magic[sizeof(LAYER_RECORD_MAGIC) - 1];

	TRY(record_take(r, magic, sizeof(magic), err));
	return memcmp(magic, LAYER_RECORD_MAGIC, sizeof(magic)) == 0
		? 0
		: mlr_fail(err, EPROTO, "not a layer's record");
}

int record_take_end(struct record_reader *r, struct mlr_error *err)
{
	int e = r->taken < r->filled ? 1 : refill(r, err);
	char byte;

	TRY(e);
	if (e > 0 || r->input.pos < r->input.size || pread(r->fd, &byte, 1, r->at) > 0)
		return mlr_fail(err, EPROTO, "the layer's record goes on after its end");
	return 0;
}
