/*
 * Fuzz target: one checkpoint. What is accepted has every float of its network. As a state
 * dictionary of that network it is matched, or what does not fit is told.
 */
#include "model/checkpoint.h"
#include "model/state_dict.h"
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

static void take_as_state_dict(const struct checkpoint *c, const char *buf, size_t size)
{
	struct safetensors st = { 0 };
	struct state_dict_words words = { STRV_INIT, STRV_INIT };
	int r;

	if (safetensors_parse(buf, size, &st, NULL) < 0)
		abort();
	r = state_dict_take(&st, c->net, NULL, c->params, c->states, &words, NULL);
	if ((r < 0) != (words.problems.n > 0))
		abort();
	safetensors_done(&st);
	strv_done(&words.matches);
	strv_done(&words.problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct checkpoint c = { 0 };
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
		take_as_state_dict(&c, buf, size);
	}
	checkpoint_done(&c);
	free(buf);
	return 0;
}
