/* Reads HEALTHCHECK. For this room's other files. */
#pragma once

#include "recipe/instruction.h"

#include <jansson.h>

/* Check the options and the kind. Returns 0 or -EINVAL. */
int health_check(const struct instruction *in, struct mlr_error *err);

/* The configuration's member "Healthcheck" (moby's image specification, config.md; OCI has no such
 * member) of an instruction that was checked. */
json_t *health_config(const struct instruction *in);
