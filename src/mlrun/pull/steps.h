/* Takes steps of builds from a registry, where push_steps() put them (oci/steps.h). */
#pragma once

#include "oci/ref.h"
#include "oci/steps.h"
#include "registry/registry.h"
#include "store/store.h"

struct pull_steps;

/* Read what is there; opt must outlive it. Returns 0; -ENOENT if there is no such image; -EPROTO if
 * it has no steps; errors as registry/registry.h says. */
int pull_steps_open(const struct oci_ref *ref, const struct registry_options *opt,
	struct pull_steps **ret, struct mlr_error *err);
/* NULL is fine. */
void pull_steps_free(struct pull_steps *s);

/* Find a step by its key, or NULL. */
const struct oci_step *pull_steps_find(const struct pull_steps *s, const char *key);

/* Bring a step's layer into the store. Returns 0, also if it is there; errors as pull_image(). */
int pull_steps_bring(
	struct pull_steps *s, struct store *st, const struct oci_step *step, struct mlr_error *err);
