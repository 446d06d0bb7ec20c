/* GPUs and their device nodes, by /proc/driver/nvidia, /sys and /dev. */
#ifndef MLR_GPU_DEVICES_H
#define MLR_GPU_DEVICES_H

#include "gpu/machine.h"
#include "gpu/root.h"

/*
 * Fill in gpus (NVIDIA's, with MIG and DRM nodes), nodes, fabric, has_caps and warnings: nodes that
 * lack because nvidia-modprobe never ran, that the user may not open, whose numbers are not the
 * driver's. m->driver is known by then. Returns 0 or -errno.
 */
int gpu_devices_find(const struct gpu_dir *d, struct gpu_machine *m, struct mlr_error *err);

/* The same for AMD's: /dev/kfd, /sys/class/kfd, /dev/dri, memory; and the ROCm libraries as
 * files. */
int gpu_amd_find(
	const struct gpu_dir *d, int with_files, struct gpu_machine *m, struct mlr_error *err);

/* Set each GPU's index (machine.h), after all are found. */
void gpu_devices_count(struct gpu_machine *m);

#endif
