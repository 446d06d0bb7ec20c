/* Recipes: what was parsed can be checked, and each of its instructions parses again to the same.
 */
#include "base/cleanup.h"
#include "base/memory.h"
#include "recipe/lint.h"
#include "recipe/recipe.h"
#include "recipe/stages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct instruction *in, char escape)
{
	struct instruction again = { 0 };

	if (instruction_parse(in->text, escape, &again, NULL) < 0 || again.word != in->word ||
		again.args.n != in->args.n || again.n_heredocs != in->n_heredocs)
		abort();
	for (size_t i = 0; i < in->n_heredocs; i++)
		if (!in->heredocs[i].content || !in->heredocs[i].name)
			abort();
	instruction_done(&again);
}

static void check_stages(const struct recipe *r)
{
	static char given[] = "A=1";
	char *v[] = { given, NULL };
	const struct strv list = { v, 1 };
	struct stages s = { 0 };
	struct lint lint = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	char *needed;

	if (stages_resolve(r, NULL, &list, &s, &err) < 0) {
		if (!strstr(err.text, "F:"))
			abort();
		return;
	}
	needed = xcalloc(s.n, 1);
	stages_need(r, &s, s.n - 1, needed);
	free(needed);
	if (lint_recipe(r, &s, &list, &lint, &err) == 0)
		lint_done(&lint);
	stages_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe r = RECIPE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (recipe_parse("F", (const char *)data, size, &r, &err) < 0) {
		if (strncmp(err.text, "F:", 2) != 0)
			abort();
		return 0;
	}
	for (size_t i = 0; i < r.n; i++)
		check_again(&r.v[i], r.escape);
	check_stages(&r);
	recipe_done(&r);
	return 0;
}
