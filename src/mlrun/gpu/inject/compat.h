/* Decides on CUDA forward compatibility: libraries in the image that are newer than the host's
 * driver. */
#pragma once

#include "gpu/gpu.h"
#include "gpu/machine.h"

struct gpu_compat {
	int use;               /* use its libraries in place of the driver's */
	char *dir;             /* in the image, "/usr/local/cuda/compat"; NULL: none */
	char *version;         /* "550.54.15" of libcuda.so.550.54.15 */
	struct strv libraries; /* names in dir, "libcuda.so.550.54.15" */
	char *why;             /* explains the decision in a sentence */
};

void gpu_compat_done(struct gpu_compat *c);

/* Announce to the image that its libraries will be listed; expect is not NULL. */
void gpu_compat_expect(const struct gpu_image *image);

/*
 * Decide by the ELF note .note.cuda.fwd_compatibility of libcuda.so (NVIDIA container toolkit,
 * internal/discover/compat_libs.go), else by the major versions. With several libcuda.so.*.*
 * nothing is used. Returns 0; if a file cannot be read, the decision is no.
 */
int gpu_compat_read(
	const struct gpu_image *image, const struct gpu_machine *m, struct gpu_compat *ret);
