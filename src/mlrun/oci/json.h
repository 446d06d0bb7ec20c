/*
 * Reads untrusted JSON: jansson with its strictest settings. For parsers only: no parser returns a
 * json_t.
 */
#pragma once

#include "base/base.h"
#include "base/record.h"

#define OCI_SIZE_MAX ((uint64_t)1 << 42) /* 4 TiB: beyond any image; sums fit in 64 bits */

/* Parse an object. A repeated key is an error, since readers disagree on which one counts. A number
 * that fits neither 64 bits nor a double becomes a string of its digits. Returns 0, -EPROTO with
 * the position, or -EFBIG beyond max bytes. */
int oci_json_load(const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err);
/* Parse an array; otherwise the same. */
int oci_json_load_array(
	const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err);

/* Parse an object and read it by rows. Its texts, but those of lists, have no control characters.
 */
int oci_json_read(const char *text, size_t len, size_t max, const struct record_row *rows, void *to,
	struct mlr_error *err);
