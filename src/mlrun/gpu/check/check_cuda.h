/* An image's CUDA against what a driver serves. For check.c. */
#ifndef MLR_GPU_CHECK_CUDA_H
#define MLR_GPU_CHECK_CUDA_H

#include "gpu/check/check.h"
#include "gpu/choice/choice.h"

/*
 * Judge by NVIDIA's "CUDA Compatibility": a driver serves the CUDA of its time and all before it;
 * from CUDA 11 and driver 450.80.02 on also later ones of the same major version, unless a
 * program's kernels are PTX alone; and later majors where the image brings libcuda itself and the
 * GPU is a data centre's.
 */
struct gpu_finding gpu_cuda_check(
	const struct gpu_request *q, const struct gpu_machine *m, const struct gpu_choice *c);

/*
 * Is the image's CUDA too new or too old for a chosen GPU's compute capability? Returns 1 and a
 * finding of the first GPU for which it is, or 0, also where one or the other is not known.
 */
int gpu_cuda_check_arch(const struct gpu_request *q, const struct gpu_machine *m,
	const struct gpu_choice *c, struct gpu_finding *ret);

#endif
