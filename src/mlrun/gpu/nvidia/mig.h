/* Parts of GPUs, by /proc/driver/nvidia/capabilities and /dev/nvidia-caps (NVIDIA Multi-Instance
 * GPU User Guide). */
#ifndef MLR_GPU_MIG_H
#define MLR_GPU_MIG_H

#include "gpu/machine.h"
#include "gpu/root.h"

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
