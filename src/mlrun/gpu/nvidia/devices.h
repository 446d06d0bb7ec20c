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

/* The same, and before it the driver and its files (struct gpu_vendor_row). */
int gpu_nvidia_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

#endif
