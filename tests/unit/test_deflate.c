/* The compressors of layers: what they write comes back, and depends on neither pieces nor cores.
 */
#include "unit.h"
#include "base/hash.h"
#include "layer/blocks.h"
#include "layer/codec.h"
#include "oci/compression.h"

#include <sched.h>

#define BIG (20u << 20)

static struct mlr_error err;
static unsigned char *input;

struct output {
	unsigned char *data;
	size_t len;
};

static int append(void *ctx, const void *buf, size_t len, struct mlr_error *e)
{
	struct output *o = ctx;

	(void)e;
	o->data = realloc(o->data, o->len + len + 1);
	assert_non_null(o->data);
	memcpy(o->data + o->len, buf, len);
	o->len += len;
	return 0;
}

/* Compress len bytes of the input, handed over in pieces. */
static struct output compress(enum oci_compression how, size_t len, size_t piece)
{
	struct layer_deflate *z = layer_codec(how)->deflate();
	struct output o = { 0 };

	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;

		assert_int_equal(layer_deflate_run(z, input + at, n, 0, append, &o, NULL), 0);
	}
	assert_int_equal(layer_deflate_run(z, "", 0, 1, append, &o, NULL), 0);
	layer_deflate_free(z);
	return o;
}

static void comes_back(enum oci_compression how, const struct output *o, size_t len)
{
	struct layer_inflate *z = layer_codec(how)->inflate();
	auto_free uint8_t *out = malloc(BIG + 1);
	const uint8_t *in = o->data;
	size_t in_len = o->len, room = BIG + 1;
	uint8_t *to = out;

	assert_int_equal(layer_inflate_run(z, &in, &in_len, &to, &room, &err), 0);
	assert_int_equal(layer_inflate_end(z, &err), 0);
	assert_int_equal(in_len, 0);
	assert_int_equal(to - out, len);
	assert_memory_equal(out, input, len);
	layer_inflate_free(z);
}

static void use_one_core(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(layer_blocks_cores(), 1);
}

static void test_same_bytes(void **state)
{
	static const size_t lengths[] = { 0, 1, LAYER_BLOCK - 1, LAYER_BLOCK, LAYER_BLOCK + 1,
		BIG };
	static const enum oci_compression all[] = { OCI_GZIP, OCI_ZSTD };
	cpu_set_t cores;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(cores), &cores), 0);
	for (size_t c = 0; c < ARRAY_LEN(all); c++)
		for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
			struct output whole = compress(all[c], lengths[i], BIG), pieces, alone;

			comes_back(all[c], &whole, lengths[i]);
			pieces = compress(all[c], lengths[i], 77777);
			use_one_core();
			alone = compress(all[c], lengths[i], 1000003);
			assert_int_equal(sched_setaffinity(0, sizeof(cores), &cores), 0);
			assert_int_equal(whole.len, pieces.len);
			assert_int_equal(whole.len, alone.len);
			assert_memory_equal(whole.data, pieces.data, whole.len);
			assert_memory_equal(whole.data, alone.data, whole.len);
			free(whole.data);
			free(pieces.data);
			free(alone.data);
		}
}

static int refuse(void *ctx, const void *buf, size_t len, struct mlr_error *e)
{
	size_t *left = ctx;

	(void)buf;
	if (len > *left)
		return mlr_fail(e, ENOSPC, "no room");
	*left -= len;
	return 0;
}

/* A failure to write ends it, with blocks still at work. */
static void test_failure(void **state)
{
	(void)state;
	for (size_t room = 0; room < 3u << 20; room += 1u << 20) {
		struct layer_deflate *z = layer_codec(OCI_GZIP)->deflate();
		size_t left = room;
		int r = layer_deflate_run(z, input, BIG, 0, refuse, &left, &err);

		if (r == 0)
			r = layer_deflate_run(z, "", 0, 1, refuse, &left, &err);
		assert_int_equal(r, -ENOSPC);
		layer_deflate_free(z);
	}
}

/* A quarter each of zeros, of text, and of what cannot be compressed. */
static int make_input(void **state)
{
	unsigned long x = 88172645463325252u;

	(void)state;
	input = calloc(1, BIG);
	assert_non_null(input);
	for (size_t i = BIG / 4; i < BIG; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		input[i] = i < BIG / 2 ? "etaoin shrdlu\n"[x % 14] : (unsigned char)x;
	}
	return 0;
}

static int free_input(void **state)
{
	(void)state;
	free(input);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bytes),
		cmocka_unit_test(test_failure),
	};

	return cmocka_run_group_tests(tests, make_input, free_input);
}
