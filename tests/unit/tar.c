#include "tar.h"

#include "base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

void tar_done(struct tar *t)
{
	free(t->p);
	memset(t, 0, sizeof(*t));
}

void tar_bytes(struct tar *t, const void *p, size_t len)
{
	while (t->room < t->n + len) {
		t->room = t->room ? 2 * t->room : 4096;
		t->p = xreallocarray(t->p, t->room, 1);
	}
	memcpy(t->p + t->n, p, len);
	t->n += len;
}

static void pad(struct tar *t)
{
	static const char zeros[512];

	tar_bytes(t, zeros, (512 - t->n % 512) % 512);
}

void tar_member(struct tar *t, char type, const char *name, unsigned mode, long mtime,
	const char *link, const void *data, size_t len, uint64_t size)
{
	unsigned char h[512] = { 0 };
	unsigned sum = 0;

	memcpy(h, name, strnlen(name, 100));
	snprintf((char *)h + 100, 8, "%07o", mode);
	snprintf((char *)h + 108, 8, "%07o", 0);
	snprintf((char *)h + 116, 8, "%07o", 0);
	snprintf((char *)h + 124, 13, "%012llo", (unsigned long long)size & 0777777777777ull);
	snprintf((char *)h + 136, 12, "%011lo", mtime);
	memset(h + 148, ' ', 8);
	h[156] = (unsigned char)type;
	memcpy(h + 157, link, strnlen(link, 100));
	memcpy(h + 257, "ustar\00000", 8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
	tar_bytes(t, h, sizeof(h));
	tar_bytes(t, data, len);
	pad(t);
}

void tar_pax(struct tar *t, const char *key, const void *value, size_t vlen)
{
	size_t body = strlen(key) + vlen + 3,
	       len = body + 1; /* " key=value\n" and the length's digits */
	char *rec, digits[24];

	while (len != body + (size_t)snprintf(digits, sizeof(digits), "%zu", len))
		len = body + strlen(digits);
	rec = xmalloc(len + 1);
	snprintf(rec, len + 1, "%zu %s=", len, key);
	memcpy(rec + len - 1 - vlen, value, vlen);
	rec[len - 1] = '\n';
	tar_member(t, 'x', "pax", 0644, 0, "", rec, len, len);
	free(rec);
}

void tar_end(struct tar *t)
{
	static const char zeros[1024];

	tar_bytes(t, zeros, sizeof(zeros));
}

void tar_gzip(struct tar *t)
{
	size_t room = t->n + t->n / 1000 + 100;
	unsigned char *out = xmalloc(room);
	z_stream z = {
		.next_in = t->p, .avail_in = (uInt)t->n, .next_out = out, .avail_out = (uInt)room
	};
	int r = deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);

	assert(r == Z_OK);
	r = deflate(&z, Z_FINISH);
	assert(r == Z_STREAM_END);
	free(t->p);
	t->p = out;
	t->n = z.total_out;
	deflateEnd(&z);
}

void tar_zstd(struct tar *t, int level, int window_log)
{
	size_t room = ZSTD_compressBound(t->n);
	unsigned char *out = xmalloc(room);
	ZSTD_CCtx *c = ZSTD_createCCtx();

	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	if (window_log) {
		ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log);
		ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
	}
	ZSTD_inBuffer in = { t->p, t->n, 0 };
	ZSTD_outBuffer to = { out, room, 0 };
	/* Not in one call, so that the frame's window is the one asked for. */
	ZSTD_compressStream2(c, &to, &in, ZSTD_e_continue);
	size_t r = ZSTD_compressStream2(c, &to, &in, ZSTD_e_end);

	assert(r == 0);
	ZSTD_freeCCtx(c);
	free(t->p);
	t->p = out;
	t->n = to.pos;
}

void tar_zstd_skippable(struct tar *t, const void *p, uint32_t len)
{
	unsigned char head[8] = { 0x50, 0x2a, 0x4d, 0x18, (unsigned char)len,
		(unsigned char)(len >> 8), (unsigned char)(len >> 16), (unsigned char)(len >> 24) };

	tar_bytes(t, head, sizeof(head));
	tar_bytes(t, p, len);
}

ssize_t tar_read(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct tar *t = ctx;

	if (t->chunk && len > t->chunk)
		len = t->chunk;
	if (len > t->n - t->at)
		len = t->n - t->at;
	if (len == 0)
		return 0;
	memcpy(buf, t->p + t->at, len);
	t->at += len;
	return (ssize_t)len;
}
