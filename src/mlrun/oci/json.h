/*
 * Reading JSON from strangers: jansson with its strictest settings, and the few questions that
 * parsers ask, each failing with the key's name. For parsers only: a json_t never leaves one.
 */
#ifndef MLR_OCI_JSON_H
#define MLR_OCI_JSON_H

#include "base/error.h"
#include "base/strv.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_SIZE_MAX ((uint64_t)1 << 42) /* 4 TiB: beyond any image; sums fit in 64 bits */

/* Parse one object; a key that stands twice is refused, since readers disagree on which one counts.
 * A number that neither 64 bits nor a double hold becomes a string of its digits. Returns 0,
 * -EPROTO with the place, or -EFBIG beyond max bytes. */
int oci_json_load(const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err);
/* The same for a document that is an array. */
int oci_json_load_array(
	const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err);

/*
 * The value of a key, borrowed from obj. An absent key and JSON's null are the same: *ret is NULL.
 * Returns 0, or -EPROTO when it has another type (for text also: when it holds control characters).
 */
int oci_json_text(json_t *obj, const char *key, const char **ret, struct mlr_error *err);
int oci_json_object(json_t *obj, const char *key, json_t **ret, struct mlr_error *err);
int oci_json_array(json_t *obj, const char *key, json_t **ret, struct mlr_error *err);

/* A count of bytes, 0 to OCI_SIZE_MAX; absent is an error. */
int oci_json_size(json_t *obj, const char *key, uint64_t *ret, struct mlr_error *err);

/* An array of strings appended to ret; absent adds nothing. */
int oci_json_texts(json_t *obj, const char *key, struct strv *ret, struct mlr_error *err);

#endif
