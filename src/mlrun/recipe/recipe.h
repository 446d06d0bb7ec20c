/*
 * recipe: the Dockerfile language - lines, instructions, variables. Parses; runs nothing.
 *
 * This header: a recipe as a list of instructions, with their variables unexpanded. Source:
 * docs.docker.com/reference/dockerfile, and BuildKit where that is silent.
 */
#pragma once

#include "recipe/instruction.h"

#define RECIPE_MAX ((size_t)1 << 20) /* bytes of a file */

struct recipe {
	char *name;           /* the file's, for messages */
	char escape;          /* '\\' or '`' */
	char *syntax, *check; /* the directives' values, or NULL */
	struct instruction *v;
	size_t n;
	unsigned *gaps; /* lines that are empty within a continued one; n_gaps of them */
	size_t n_gaps;
	int is_definition; /* recipe/definition.h made it */
};

#define RECIPE_INIT                                         \
	{                                                   \
		NULL, '\\', NULL, NULL, NULL, 0, NULL, 0, 0 \
	}
void recipe_done(struct recipe *r);

/*
 * Parse a file's text.
 *
 *   name  for messages, which begin with "NAME:LINE: "
 *
 * Each instruction is complete in itself: its flags are known, and it has the arguments that it
 * needs. The first is FROM, or ARG before it.
 *
 * Returns 0; -EINVAL with the file, the line and the words at fault; -EFBIG.
 */
int recipe_parse(
	const char *name, const char *text, size_t len, struct recipe *ret, struct mlr_error *err);

/* Parse one instruction with its here-documents, as ONBUILD keeps it. Returns 0 or -EINVAL. */
int recipe_parse_trigger(const char *text, struct instruction *ret, struct mlr_error *err);
