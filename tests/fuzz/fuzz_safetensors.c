/*
 * Fuzz target: one safetensors file. What is accepted is read to its last byte and written again.
 */
#include "tensor/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum_of(const struct safetensors *st)
{
	size_t bytes = 0;

	for (size_t i = 0; i < st->n; i++) {
		size_t len = tensor_size(&st->tensors[i]);
		char *copy = malloc(len);

		if (!copy || safetensors_find(st, st->tensors[i].name) != &st->tensors[i])
			abort();
		memcpy(copy, st->tensors[i].data,
			len); /* the sanitizer sees whether all of it is there */
		free(copy);
		bytes += len;
	}
	return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct safetensors st = { 0 }, again = { 0 };
	char *buf = malloc(size ? size : 1),
	     *out = NULL; /* exactly as long, so that a read beyond is seen */
	size_t len;

	if (!buf)
		abort();
	memcpy(buf, data, size);
	if (safetensors_parse(buf, size, &st, &err) < 0) {
		if (st.tensors || !err.text[0])
			abort(); /* a refusal leaves nothing and says why */
	} else {
		if (safetensors_build(&st, &out, &len, &err) < 0 ||
			safetensors_parse(out, len, &again, &err) < 0 ||
			sum_of(&again) != sum_of(&st) || again.n != st.n || again.metas != st.metas)
			abort();
		safetensors_done(&again);
		free(out);
	}
	safetensors_done(&st);
	free(buf);
	return 0;
}
