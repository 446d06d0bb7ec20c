/* Adds the chosen GPUs and the driver's files to a plan. */
#ifndef MLR_GPU_INJECT_H
#define MLR_GPU_INJECT_H

#include "gpu/choice/choice.h"
#include "gpu/gpu.h"
#include "gpu/machine.h"
#include "gpu/choice/wish.h"

/*
 * Directories for the driver's libraries, created in memory for each container. So nothing of the
 * image is hidden or changed, and no stale library is found first. CUDA's images have them in
 * LD_LIBRARY_PATH.
 */
#define GPU_LIB_DIR   "/usr/local/nvidia/lib64"
#define GPU_LIB32_DIR "/usr/local/nvidia/lib"

/* Add nodes, files, links, variables and /proc/driver/nvidia. Returns 0 or -errno. */
int gpu_inject(const struct gpu_machine *m, const struct gpu_wish *w, const struct gpu_choice *c,
	const struct gpu_image *image, struct plan *p, struct mlr_error *err);

#endif
