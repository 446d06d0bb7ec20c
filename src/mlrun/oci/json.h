/*
 * Reads untrusted JSON: jansson with its strictest settings, and accessors whose errors name the
 * key. For parsers only: no parser returns a json_t.
 */
#ifndef MLR_OCI_JSON_H
#define MLR_OCI_JSON_H

#include "base/error.h"
#include "base/strv.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_SIZE_MAX ((uint64_t)1 << 42) /* 4 TiB: beyond any image; sums fit in 64 bits */

/* Parse an object. A repeated key is an error, since readers disagree on which one counts. A number
 * that fits neither 64 bits nor a double becomes a string of its digits. Returns 0, -EPROTO with
 * the position, or -EFBIG beyond max bytes. */
int oci_json_load(const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err);
/* Parse an array; otherwise the same. */
int oci_json_load_array(
	const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err);

/*
 * The value of a key, borrowed from obj; *ret is NULL if the key is absent or null. Returns 0, or
 * -EPROTO if the value has another type or is text with control characters.
 */
int oci_json_text(json_t *obj, const char *key, const char **ret, struct mlr_error *err);
int oci_json_object(json_t *obj, const char *key, json_t **ret, struct mlr_error *err);
int oci_json_array(json_t *obj, const char *key, json_t **ret, struct mlr_error *err);

/* A size in bytes, 0 to OCI_SIZE_MAX; an absent key is an error. */
int oci_json_size(json_t *obj, const char *key, uint64_t *ret, struct mlr_error *err);

/* Append an array of strings to ret; an absent key adds nothing. */
int oci_json_texts(json_t *obj, const char *key, struct strv *ret, struct mlr_error *err);

#endif
