#include "layer/codec.h"

#include "base/memory.h"
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define LEVEL 6 /* zlib's default, also of docker push and podman push */
#define CHUNK (256u << 10)

/* A backend inflates one member: run() returns 1 at the member's end, 0 before it, -1 for bad data.
 */
#if HAVE_ISAL

#include <isa-l/igzip_lib.h>

struct member {
	struct inflate_state s;
};

static void member_init(struct member *m)
{
	isal_inflate_init(&m->s);
}

static void member_done(struct member *m)
{
	(void)m; /* the state has no memory of its own */
}

static void member_begin(struct member *m)
{
	isal_inflate_reset(&m->s);
	m->s.crc_flag = ISAL_GZIP; /* reads the header, checks CRC and size */
}

static int member_run(
	struct member *m, const uint8_t **in, size_t *in_len, uint8_t **out, size_t *room)
{
	int r;

	m->s.next_in = (uint8_t *)*in;
	m->s.avail_in = (uint32_t)*in_len;
	m->s.next_out = *out;
	m->s.avail_out = (uint32_t)*room;
	r = isal_inflate(&m->s);
	*in = m->s.next_in;
	*in_len = m->s.avail_in;
	*out = m->s.next_out;
	*room = m->s.avail_out;
	if (r < 0)
		return -1;
	return m->s.block_state == ISAL_BLOCK_FINISH;
}

#else

struct member {
	z_stream s;
};

static void member_init(struct member *m)
{
	if (inflateInit2(&m->s, 15 + 16) != Z_OK) { /* 16: a gzip wrapper, and nothing else */
		mlr_oom();
		abort();
	}
}

static void member_done(struct member *m)
{
	inflateEnd(&m->s);
}

static void member_begin(struct member *m)
{
	inflateReset(&m->s);
}

static int member_run(
	struct member *m, const uint8_t **in, size_t *in_len, uint8_t **out, size_t *room)
{
	int r;

	m->s.next_in = (Bytef *)*in;
	m->s.avail_in = (uInt)*in_len;
	m->s.next_out = *out;
	m->s.avail_out = (uInt)*room;
	r = inflate(&m->s, Z_NO_FLUSH);
	*in = m->s.next_in;
	*in_len = m->s.avail_in;
	*out = m->s.next_out;
	*room = m->s.avail_out;
	if (r == Z_STREAM_END)
		return 1;
	return r == Z_OK || r == Z_BUF_ERROR ? 0
					     : -1; /* Z_BUF_ERROR: no progress without more input */
}

#endif

struct gzip {
	struct layer_inflate base;
	struct member member;
	enum { BETWEEN, INSIDE, PADDING } at;
	uint64_t members; /* finished ones */
};

/* Decide by the first byte what follows a member. */
static int next_member(struct gzip *z, uint8_t first, struct mlr_error *err)
{
	if (first == 0x1f) {
		member_begin(&z->member);
		z->at = INSIDE;
		return 0;
	}
	if (z->members == 0)
		return mlr_fail(
			err, EBADMSG, "not a gzip stream: it begins with byte 0x%02x", first);
	if (first != 0)
		return mlr_fail(err, EBADMSG, "garbage after the end of the gzip stream");
	z->at = PADDING;
	return 0;
}

static int skip_padding(const uint8_t **in, size_t *in_len, struct mlr_error *err)
{
	for (; *in_len > 0; (*in)++, (*in_len)--)
		if (**in != 0)
			return mlr_fail(err, EBADMSG, "garbage after the end of the gzip stream");
	return 0;
}

static int gzip_run(struct layer_inflate *base, const uint8_t **in, size_t *in_len, uint8_t **out,
	size_t *room, struct mlr_error *err)
{
	struct gzip *z = (struct gzip *)base;
	int r;

	for (;;) {
		if (z->at == PADDING)
			return skip_padding(in, in_len, err);
		if (z->at == BETWEEN) {
			if (*in_len == 0)
				return 0;
			r = next_member(z, **in, err);
			if (r < 0)
				return r;
			continue;
		}
		r = member_run(&z->member, in, in_len, out, room);
		if (r < 0)
			return mlr_fail(err, EBADMSG, "the gzip stream is damaged");
		if (r == 0)
			return 0;
		z->at = BETWEEN;
		z->members++;
	}
}

static int gzip_end(const struct layer_inflate *base, struct mlr_error *err)
{
	const struct gzip *z = (const struct gzip *)base;

	if (z->at == INSIDE || z->members == 0)
		return mlr_fail(err, EBADMSG, "the gzip stream ends too early");
	return 0;
}

static void gzip_free(struct layer_inflate *base)
{
	struct gzip *z = (struct gzip *)base;

	member_done(&z->member);
	free(z);
}

static struct layer_inflate *inflate_new(void)
{
	static const struct layer_inflate_ops ops = { gzip_run, gzip_end, gzip_free };
	struct gzip *z = xcalloc(1, sizeof(*z));

	z->base.ops = &ops;
	member_init(&z->member);
	return &z->base;
}

struct packer {
	struct layer_deflate base;
	z_stream s;
	unsigned char out[CHUNK];
};

static int packer_run(struct layer_deflate *base, const void *buf, size_t len, int end,
	layer_write_fn write, void *ctx, struct mlr_error *err)
{
	struct packer *p = (struct packer *)base;
	int r;

	p->s.next_in = (Bytef *)buf;
	p->s.avail_in = (uInt)len;
	do {
		p->s.next_out = p->out;
		p->s.avail_out = sizeof(p->out);
		deflate(&p->s, end ? Z_FINISH : Z_NO_FLUSH); /* cannot fail with a valid state */
		r = write(ctx, p->out, sizeof(p->out) - p->s.avail_out, err);
	} while (r == 0 && p->s.avail_out == 0);
	return r;
}

static void packer_free(struct layer_deflate *base)
{
	struct packer *p = (struct packer *)base;

	deflateEnd(&p->s);
	free(p);
}

/* The header has no name and no time. */
static struct layer_deflate *deflate_new(void)
{
	static const struct layer_deflate_ops ops = { packer_run, packer_free };
	struct packer *p = xcalloc(1, sizeof(*p));

	p->base.ops = &ops;
	if (deflateInit2(&p->s, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		mlr_oom();
		abort();
	}
	return &p->base;
}

/* RFC 1952, 2.3.1 */
static int is_magic(const unsigned char *b, size_t n)
{
	return n >= 2 && b[0] == 0x1f && b[1] == 0x8b;
}

const struct layer_codec layer_gzip = { is_magic, inflate_new, deflate_new };
