/*
 * Fuzz target: one checkpoint. What is accepted has every float of its network.
 */
#include "model/checkpoint.h"
#include "optimiser/optimiser.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The sanitizer sees whether all of a block is there. */
static void touch(const float *block, size_t n)
{
	float *copy = malloc((n ? n : 1) * sizeof(float));

	if (!copy)
		abort();
	memcpy(copy, block, n * sizeof(float));
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct checkpoint c = CHECKPOINT_INIT;
	char *buf = malloc(size ? size : 1); /* exactly as long, so that a read beyond is seen */

	if (!buf)
		abort();
	memcpy(buf, data, size);
	if (checkpoint_parse(buf, size, &c, &err) < 0) {
		if (c.net || c.params || !err.text[0])
			abort(); /* a refusal leaves nothing and says why */
	} else {
		if (c.batch < 1 || c.ranks < 1 || c.epochs_done < 0)
			abort();
		touch(c.params, c.net->params);
		touch(c.states, c.net->states);
		for (int i = 0; c.kept[0] && i < optimiser_states(c.optimiser); i++)
			touch(c.kept[i], c.net->params);
		for (int i = 0; c.names && i < c.net->classes; i++)
			if (!c.names[i])
				abort();
	}
	checkpoint_done(&c);
	free(buf);
	return 0;
}
