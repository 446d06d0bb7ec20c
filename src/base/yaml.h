/*
 * Reads a YAML document into JSON values, as programs in Go do (sigs.k8s.io/yaml): keys are
 * strings;
 * "<<" merges. The bytes are not trusted.
 *
 * The limits are 32 levels, 200,000 values and 1000 anchors. An alias counts as all the values that
 * it stands for, so a few lines of aliases of aliases are refused. Aliases share their value: do
 * not modify the result.
 */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

enum mlr_yaml_how {
	MLR_YAML_TYPES, /* plain scalars are null, booleans or numbers by YAML 1.1's rules */
	/* All scalars are strings, as they stand, but null. A value with the tag !reset or
	 * !override is a mapping with this one key. */
	MLR_YAML_TEXTS,
};

/* Where a value stands: the key of a mapping, or the item of a list. */
struct mlr_yaml_place {
	const json_t *in, *value; /* only to compare */
	char *key;                /* NULL: of a list */
	size_t at;
	const char *file; /* the lines' own */
	size_t line;      /* from 1 */
};

/* Places of one document, or of several. */
struct mlr_yaml_lines {
	struct mlr_yaml_place *v;
	size_t n;
	const char *file; /* of the document that is read next; or NULL */
	/* Changes a text, but no key, once where it stands; *ret to free(). Or NULL. */
	int (*text)(void *ctx, size_t line, const char *s, char **ret, struct mlr_error *err);
	void *ctx;
};

void mlr_yaml_lines_done(struct mlr_yaml_lines *l);

/* The place of a key of a mapping, or with key NULL of a list's item; NULL: unknown. The values
 * must still be there. */
const struct mlr_yaml_place *mlr_yaml_place(
	const struct mlr_yaml_lines *l, const json_t *in, const char *key, size_t at);

/*
 * Read one document.
 *
 *   lines  gets where the values stand, and may change them; may be NULL
 *
 * Returns 0 and a value to json_decref(); -EPROTO naming the line, also for a repeated key, a
 * second document, a foreign tag, or a NUL; -ENOMEM.
 */
int mlr_yaml_load(const char *text, size_t size, enum mlr_yaml_how how,
	struct mlr_yaml_lines *lines, json_t **ret, struct mlr_error *err);
