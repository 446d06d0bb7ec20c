/* Writes a machine as JSON and reads it elsewhere: `mlrun profile`, `mlrun gpu check --profile`. */
#pragma once

#include "gpu/machine.h"

#include <jansson.h>

/* Make an object of all fields but processors, which a profile holds beside it. Every key is
 * present; unknown values are null. */
json_t *gpu_machine_to_json(const struct gpu_machine *m);

/* Read such an object, which is not trusted. Returns 0 or -EPROTO naming the key. */
int gpu_machine_from_json(const json_t *j, struct gpu_machine *ret, struct mlr_error *err);

/* The format of `mlrun profile`: an object of "format", this number; "mlrun", the program;
 * "architecture", its processors; "gpu", the rest of the machine. */
#define GPU_PROFILE_FORMAT 1

/*
 * Read a machine from a file of `mlrun profile`.
 *
 * Returns 0; the errno of reading; -EPROTO for an invalid file, naming the line or the key;
 * -ENOTSUP for another format.
 */
int gpu_profile_read(const char *file, struct gpu_machine *ret, struct mlr_error *err);
