/* Decisions made into entries of a plan. */
#ifndef MLR_GPU_INJECT_H
#define MLR_GPU_INJECT_H

#include "gpu/choice/choice.h"
#include "gpu/gpu.h"
#include "gpu/machine.h"
#include "gpu/choice/wish.h"

/*
 * Where libraries go: directories of our own, fresh and in memory, so that nothing of the image's
 * is hidden or changed and nothing stale of it is found first. CUDA's images have them in
 * LD_LIBRARY_PATH already.
 */
#define GPU_LIB_DIR   "/usr/local/nvidia/lib64"
#define GPU_LIB32_DIR "/usr/local/nvidia/lib"

/* Nodes, files, links, variables, /proc/driver/nvidia. Returns 0 or -errno. */
int gpu_inject(const struct gpu_machine *m, const struct gpu_wish *w, const struct gpu_choice *c,
	const struct gpu_image *image, struct plan *p, struct mlr_error *err);

#endif
