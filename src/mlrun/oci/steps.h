/*
 * Steps of builds, kept in a registry: an image whose layers are those that the steps made, and
 * whose configuration has in "org.mlrun.steps" an object a step,
 *
 *   {"key": digest of all that the step depends on, "layer": diff ID or null, "size": bytes of its
 *    tar, "created": seconds since 1970}
 */
#pragma once

#include "oci/digest.h"

#define OCI_STEP_TIME_MAX 253402300799 /* the year 9999, the last that RFC 3339 can write */

struct oci_step {
	char key[OCI_DIGEST_SIZE];
	char diff_id[OCI_DIGEST_SIZE]; /* "": it wrote nothing */
	uint64_t size;
	int64_t created;
};

/* The configuration, to free(). Its layers are those of the steps in order, each once. */
char *oci_steps_write(const struct oci_step *steps, size_t n);

/* Read it. ret gets n steps, to free(); none from an image of another kind. Returns 0, or -EPROTO
 * if they are malformed. */
int oci_steps_parse(
	const char *json, size_t len, struct oci_step **ret, size_t *n, struct mlr_error *err);
