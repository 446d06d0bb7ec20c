/*
 * Fuzz target: what an HTTP server sends to `mltrain load`. The first byte says how many bytes come
 * at once; read in one piece, the answers must be the same.
 */
#include "load/answer.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	int result, answers, status;
	size_t kept, headers;
};

static void count_header(
	void *ctx, const char *name, size_t name_len, const char *value, size_t value_len)
{
	size_t *n = ctx;

	(void)value;
	if (!name_len || memchr(name, '\n', name_len) || memchr(value, '\n', value_len))
		abort();
	*n += name_len + value_len;
}

/* One answer after the other, as on a connection that is kept. */
static struct seen read_all(const char *bytes, size_t size, size_t piece)
{
	struct seen s = { 0 };
	struct answer a = { .header = count_header, .ctx = &s.headers, .keep_max = 64 };
	size_t used;

	answer_begin(&a, 0);
	for (size_t at = 0; at < size && s.result >= 0; at += used) {
		size_t n = size - at < piece ? size - at : piece;

		s.result = answer_read(&a, bytes + at, n, &used);
		if (used > n || (s.result == 0 && used < n) || a.kept > 64)
			abort();
		if (s.result == 1) {
			s.answers++;
			s.status = a.status;
			s.kept += a.kept;
			answer_begin(&a, 0);
		}
	}
	answer_done(&a);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen pieces, whole;

	if (!size)
		return 0;
	pieces = read_all((const char *)data + 1, size - 1, (size_t)data[0] + 1);
	whole = read_all((const char *)data + 1, size - 1, size);
	if ((pieces.result < 0) != (whole.result < 0) || pieces.answers != whole.answers ||
		pieces.status != whole.status || pieces.kept != whole.kept)
		abort();
	return 0;
}
