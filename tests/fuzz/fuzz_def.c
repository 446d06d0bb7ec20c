/* Definition files: an error names the file in one line and at most one hint; a recipe has stages,
 * and files whole. */
#include "recipe/definition.h"
#include "recipe/stages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct recipe *r)
{
	struct stages s = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (stages_resolve(r, NULL, NULL, &s, &err) < 0)
		abort();
	for (size_t i = 0; i < r->n; i++) {
		const struct instruction *in = &r->v[i];

		if (!in->is_section || in->line == 0 ||
			(in->word == INSTRUCTION_COPY && in->args.n % 2))
			abort();
		for (size_t k = 0; k < in->n_heredocs; k++)
			if (*in->heredocs[k].name != '/' || !in->heredocs[k].content)
				abort();
	}
	stages_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char given[] = "A=1", *v[] = { given, NULL };
	const struct strv args = { v, 1 };
	const struct definition_options o = { .args = size % 2 ? &args : NULL,
		.library = size % 3 ? "r.io/l" : NULL };
	struct recipe r = RECIPE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (definition_parse("F", (const char *)data, size, &o, &r, &err) < 0) {
		const char *hint = strstr(err.text, "\nhint: ");

		if (strncmp(err.text, "F:", 2) != 0 ||
			(strchr(err.text, '\n') && strchr(err.text, '\n') != hint))
			abort();
		return 0;
	}
	check(&r);
	recipe_done(&r);
	return 0;
}
