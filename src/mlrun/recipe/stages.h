/* The stages of a recipe, and what each needs of the others. */
#pragma once

#include "recipe/recipe.h"
#include "recipe/scope.h"

struct stage {
	char *name;     /* in lower case; NULL: none */
	char *base;     /* what FROM names, expanded: a stage, an image, or "scratch" */
	char *platform; /* --platform, expanded; NULL: none */
	int parent;     /* the stage that base names; -1: an image */
	size_t from;    /* its FROM among the recipe's instructions; those of the stage follow */
	size_t end;     /* the next stage's FROM, or the recipe's end */
};

struct stages {
	struct scope global;
	struct stage *v;
	size_t n; /* at least 1 */
};

void stages_done(struct stages *s);

/*
 * Split a recipe into stages and expand its FROM lines.
 *
 *   platform  "K=V": TARGETPLATFORM, BUILDARCH and so on
 *   given     "K=V": --build-arg; borrowed by ret->global
 *
 * Returns 0; -EINVAL with the line at fault.
 */
int stages_resolve(const struct recipe *r, const struct strv *platform, const struct strv *given,
	struct stages *ret, struct mlr_error *err);

/*
 * Find a stage by its name or number, as --from and --target give it: the last one of the name
 * before the stage `before`. Returns its number, or -1.
 */
int stages_find(const struct stages *s, const char *name, size_t before);

/* Mark the stages whose files an instruction of the stage `before` takes: ret[i] becomes 1. */
void stages_used_by(const struct stages *s, const struct instruction *in, size_t before, char *ret);

/* Mark the stages that a stage is made from, itself included. */
void stages_need(const struct recipe *r, const struct stages *s, size_t target, char *ret);
