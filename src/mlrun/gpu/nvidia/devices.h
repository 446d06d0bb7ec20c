/* Finds NVIDIA's GPUs and their device nodes in /proc/driver/nvidia, /sys and /dev. */
#ifndef MLR_GPU_DEVICES_H
#define MLR_GPU_DEVICES_H

#include "gpu/machine.h"
#include "gpu/root.h"

/*
 * Fill in gpus (NVIDIA's, with MIG and DRM nodes), nodes, fabric, has_caps and warnings: nodes
 * missing because nvidia-modprobe never ran, nodes closed to the user, nodes with a wrong number.
 * m->driver must be known. Returns 0 or -errno.
 */
int gpu_devices_find(const struct gpu_dir *d, struct gpu_machine *m, struct mlr_error *err);

/* Find the driver and its files first, then the devices (struct gpu_vendor_row). */
int gpu_nvidia_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

#define GPU_MIG_NO_CAPS  (-1L) /* the kernel has no nvidia-caps */
#define GPU_MIG_ANY_CAPS (-2L) /* their number is unknown */

/*
 * Fill in g->mig, by g->minor: every compute instance with its GPU instance, in numeric order.
 * Where the kernel has nvidia-caps, the nodes are checked too; a missing one has the error ENOENT.
 *
 *   caps      major number of nvidia-caps in /proc/devices, or a constant above
 *   warnings  gets wrong and missing nodes
 */
void gpu_mig_find(const struct gpu_dir *d, long caps, struct gpu *g, struct strv *warnings);

#endif
