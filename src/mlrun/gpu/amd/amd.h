/* Finds AMD's GPUs and ROCm on this machine, and samples the GPUs. */
#pragma once

#include "gpu/nvidia/nvml.h"
#include "gpu/root.h"

/* Read /dev/kfd, /sys/class/kfd and /dev/dri; with with_files also the ROCm libraries (struct
 * gpu_vendor_row). */
int gpu_amd_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

/*
 * Add to m->files the minimum for HIP and OpenCL programs: the runtime, its compiler and their
 * libraries that small images lack (GPU_COMPUTE), and tools that show GPUs (GPU_UTILITY). They come
 * from $ROCM_PATH (only on this machine), /opt/rocm, the newest /opt/rocm-*, or the distribution.
 * Math libraries (rocBLAS, MIOpen, RCCL) belong to the image: they have gigabytes and find their
 * kernels by their own path.
 */
void gpu_rocm_find(const struct gpu_dir *d, struct gpu_machine *m);

/*
 * Sample each AMD GPU of m: gpu_busy_percent, mem_busy_percent, mem_info_vram_used and _total
 * beside the PCI device, its hwmon's power1_average or power1_input, power1_cap, temp1_input and
 * freq1_input (kernel, Documentation/gpu/amdgpu/thermal.rst), and processes from
 * /sys/class/kfd/kfd/proc.
 *
 * Returns their number; *ret goes to gpu_samples_free().
 */
int gpu_amd_sample(const struct gpu_dir *d, const struct gpu_machine *m, struct gpu_sample **ret);
