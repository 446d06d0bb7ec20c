/*
 * Fuzz target: a network's description. What is accepted is written as net_text() does and read
 * again, which must give the same network; its recipe gives rates that are numbers.
 */
#include "base/cleanup.h"
#include "model/net_file.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_again(const struct net *net)
{
	auto_call(net_free) struct net *again = NULL;
	auto_free char *text = net_text(net), *twice = NULL;

	if (net_parse(text, strlen(text), "again", NULL, &again, NULL, NULL) < 0)
		abort();
	twice = net_text(again);
	if (strcmp(text, twice) != 0 || again->params != net->params ||
		again->states != net->states || again->classes != net->classes ||
		again->n != net->n)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct net_wish wish = { { 3, { 1, 28, 28, 1 } }, 10, -1 };
	auto_call(net_free) struct net *net = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct recipe recipe;
	char *text = malloc(size ? size : 1); /* exactly as long, so that a read beyond is seen */

	if (!text)
		abort();
	memcpy(text, data, size);
	if (net_parse(text, size, "fuzzed", &wish, &net, &recipe, &err) < 0) {
		if (net || !err.text[0])
			abort(); /* a refusal leaves nothing and says why */
	} else {
		read_again(net);
		for (uint64_t step = 0; step < 20; step++)
			if (!isfinite(recipe_lr(&recipe, step, 5, 20)))
				abort();
		net_check_batch(net, recipe.batch, NULL);
	}
	free(text);
	return 0;
}
