/* AMD's ROCm on the host, for images that have none. */
#ifndef MLR_GPU_ROCM_H
#define MLR_GPU_ROCM_H

#include "gpu/machine.h"
#include "gpu/root.h"

/*
 * Add to m->files, with vendor GPU_AMD, what HIP and OpenCL programs need at the least: the
 * runtime, its compiler and what these link that a small image lacks (GPU_COMPUTE), and what shows
 * GPUs (GPU_UTILITY). They are of $ROCM_PATH (of this machine alone), /opt/rocm, the newest
 * /opt/rocm-*, or the distribution's. Libraries of mathematics (rocBLAS, MIOpen, RCCL) are not
 * among them: they are gigabytes, find their kernels by their own place, and belong to the image.
 */
void gpu_rocm_find(const struct gpu_dir *d, struct gpu_machine *m);

#endif
