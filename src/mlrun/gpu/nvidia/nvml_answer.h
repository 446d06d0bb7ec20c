/* What mlrun-nvml says, read: a line of JSON becomes a machine's facts or samples. */
#ifndef MLR_GPU_NVML_ANSWER_H
#define MLR_GPU_NVML_ANSWER_H

#include "gpu/machine.h"
#include "gpu/nvidia/nvml.h"

/*
 * The answer of `mlrun-nvml LIBRARY query`: fill in what m does not know yet, its GPUs found by
 * their bus ids. A GPU that is broken is a warning.
 *
 *   text  as mlrun-nvml printed it
 *
 * Returns 0; -EIO with the library's words and the way out; -EPROTO for what is no answer.
 */
int gpu_nvml_read_query(const char *text, struct gpu_machine *m, struct mlr_error *err);

/*
 * A line of `mlrun-nvml LIBRARY watch`.
 *
 *   ret  samples, to gpu_samples_free()
 *
 * Returns their number, or as above.
 */
int gpu_nvml_read_samples(const char *text, struct gpu_sample **ret, struct mlr_error *err);

#endif
