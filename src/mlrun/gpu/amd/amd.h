/* AMD's GPUs on this machine, and its ROCm. */
#ifndef MLR_GPU_AMD_H
#define MLR_GPU_AMD_H

#include "gpu/machine.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/root.h"

/* /dev/kfd, /sys/class/kfd, /dev/dri, memory; and the ROCm libraries as files (struct
 * gpu_vendor_row). */
int gpu_amd_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

/*
 * Add to m->files, with vendor GPU_AMD, what HIP and OpenCL programs need at the least: the
 * runtime, its compiler and what these link that a small image lacks (GPU_COMPUTE), and what shows
 * GPUs (GPU_UTILITY). They are of $ROCM_PATH (of this machine alone), /opt/rocm, the newest
 * /opt/rocm-*, or the distribution's. Libraries of mathematics (rocBLAS, MIOpen, RCCL) are not
 * among them: they are gigabytes, find their kernels by their own place, and belong to the image.
 */
void gpu_rocm_find(const struct gpu_dir *d, struct gpu_machine *m);

/*
 * A sample of each of m's AMD GPUs: gpu_busy_percent, mem_busy_percent, mem_info_vram_used and
 * _total beside the PCI device, its hwmon's power1_average or power1_input, power1_cap, temp1_input
 * and freq1_input (kernel, Documentation/gpu/amdgpu/thermal.rst), and processes by
 * /sys/class/kfd/kfd/proc.
 *
 *   ret  to gpu_samples_free()
 *
 * Returns their number.
 */
int gpu_amd_sample(const struct gpu_dir *d, const struct gpu_machine *m, struct gpu_sample **ret);

#endif
