/* What AMD's GPUs do now, as their driver tells in /sys. */
#ifndef MLR_GPU_AMD_SAMPLE_H
#define MLR_GPU_AMD_SAMPLE_H

#include "gpu/nvidia/nvml.h"
#include "gpu/root.h"

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
