/* A machine as JSON, to be looked at where it is not: `mlrun profile`, `mlrun gpu check
 * --profile`. */
#ifndef MLR_GPU_PROFILE_H
#define MLR_GPU_PROFILE_H

#include "gpu/machine.h"

#include <jansson.h>

/* An object with all that struct gpu_machine holds but its processors, which a profile tells beside
 * it; keys are always there, null when unknown. */
json_t *gpu_machine_to_json(const struct gpu_machine *m);

/* Read such an object; it may be anything. Returns 0 or -EPROTO naming the key. */
int gpu_machine_from_json(const json_t *j, struct gpu_machine *ret, struct mlr_error *err);

/* The version of what `mlrun profile` writes: an object with the keys "format", this number,
 * "mlrun", the program that wrote it, "architecture", its processors, and "gpu", the rest of the
 * machine. */
#define GPU_PROFILE_FORMAT 1

/*
 * Read the machine out of a file that `mlrun profile` wrote.
 *
 * Returns 0; the errno of reading; -EPROTO for what is no such file, naming the line or the key;
 * -ENOTSUP for one of another format.
 */
int gpu_profile_read(const char *file, struct gpu_machine *ret, struct mlr_error *err);

#endif
