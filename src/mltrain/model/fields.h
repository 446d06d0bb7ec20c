/*
 * Members of JSON objects that users write, read one by one: what is missing keeps its default,
 * what is of the wrong kind or size is an error that says what is possible.
 *
 * All return 0 or -EINVAL; *ret is set only where the member is there and right.
 */
#ifndef MLT_MODEL_FIELDS_H
#define MLT_MODEL_FIELDS_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/*
 * Is every member one of these? Else an error that names the one that is not, and the nearest of
 * those that are, for instance "'strid' is not a key of a conv layer" with a hint.
 *
 *   keys   [n], where NULL ends them too
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

/* True or false: 1 or 0. */
int fields_flag(const json_t *object, const char *key, int *ret, struct mlr_error *err);

/* A text of 1 to max bytes without control characters; borrowed from the object. */
int fields_text(
	const json_t *object, const char *key, size_t max, const char **ret, struct mlr_error *err);

/* One of words [n]: its place. */
int fields_word(const json_t *object, const char *key, const char *const *words, size_t n,
	size_t *ret, struct mlr_error *err);

/* An object. */
int fields_object(const json_t *object, const char *key, const json_t **ret, struct mlr_error *err);

/* A value as JSON, cut to what a message has room for; to free(). */
char *fields_shown(const json_t *value);

#endif
