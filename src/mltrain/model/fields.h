/*
 * Reads members of JSON objects that users write, one by one. A missing member keeps its default; a
 * wrong one is an error that names the valid values.
 *
 * All return 0 or -EINVAL and set *ret only if the member exists and is valid.
 */
#ifndef MLT_MODEL_FIELDS_H
#define MLT_MODEL_FIELDS_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/*
 * Check that every member is one of keys. The error names the unknown one and, as a hint, the
 * nearest key: "'strid' is not a key of a conv layer".
 *
 *   keys   [n]; a NULL ends them earlier
 *   whose  "a conv layer"
 */
int fields_known(const json_t *object, const char *const *keys, size_t n, const char *whose,
	struct mlr_error *err);

/* A whole number in [min, max]. */
int fields_count(const json_t *object, const char *key, long long min, long long max,
	long long *ret, struct mlr_error *err);

/* A number in [min, max]. */
int fields_number(const json_t *object, const char *key, double min, double max, double *ret,
	struct mlr_error *err);

/* true or false; sets 1 or 0. */
int fields_flag(const json_t *object, const char *key, int *ret, struct mlr_error *err);

/* A string of 1 to max bytes without control characters, borrowed from the object. */
int fields_text(
	const json_t *object, const char *key, size_t max, const char **ret, struct mlr_error *err);

/* One of words [n]; sets its index. */
int fields_word(const json_t *object, const char *key, const char *const *words, size_t n,
	size_t *ret, struct mlr_error *err);

/* An object. */
int fields_object(const json_t *object, const char *key, const json_t **ret, struct mlr_error *err);

/* Format a value as JSON, shortened for a message, to free(). */
char *fields_shown(const json_t *value);

#endif
