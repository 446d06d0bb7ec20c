/*
 * Finds what is allowed in a recipe but unwise: BuildKit's build checks, under their names
 * (docs.docker.com/reference/build-checks). The directive "check" turns them off.
 */
#pragma once

#include "recipe/stages.h"

struct lint_finding {
	unsigned line;
	const char *rule; /* such as "StageNameCasing" */
	char *text;
};

struct lint {
	struct lint_finding *v; /* by line */
	size_t n;
	int is_error; /* "check=error=true": the recipe must not be built */
};

void lint_done(struct lint *l);

/*
 * Look through a recipe.
 *
 *   given  "K=V": --build-arg
 *
 * Returns 0, or the error of a variable's expansion, such as ${NAME:?…}.
 */
int lint_recipe(const struct recipe *r, const struct stages *s, const struct strv *given,
	struct lint *ret, struct mlr_error *err);
