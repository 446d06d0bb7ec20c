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

#define GPU_MIG_NO_CAPS  (-1L) /* the kernel has no devices nvidia-caps */
#define GPU_MIG_ANY_CAPS (-2L) /* nobody tells their number */

/*
 * Fill in g->mig, by g->minor: every compute instance with its GPU instance, by their numbers.
 * Where the kernel has nvidia-caps the nodes are looked at as well; one that lacks has error
 * ENOENT.
 *
 *   caps      major number of nvidia-caps by /proc/devices, or one of the above
 *   warnings  gets nodes that are wrong or lack
 */
void gpu_mig_find(const struct gpu_dir *d, long caps, struct gpu *g, struct strv *warnings);

#endif
