/* Which driver a machine runs, by what its kernel says. */
#ifndef MLR_GPU_DRIVER_H
#define MLR_GPU_DRIVER_H

#include "gpu/machine.h"
#include "gpu/root.h"

/*
 * Fill in driver, refused, driver_text, driver_version, is_open and cuda, by a handful of files:
 * /etc/nv_tegra_release and the device tree, /proc/driver/nvidia/version, /dev/dxg, /dev/nvidiactl.
 * With the last alone the driver is NVIDIA's and its version not known yet.
 */
void gpu_driver_find(const struct gpu_dir *d, struct gpu_machine *m);

/* Is it a version that the driver could have, "535.104.05"? The first number tells it from others':
 * it is above 100. */
int gpu_driver_is_version(const char *text);

/* Set the version, and cuda by it. */
void gpu_driver_set_version(struct gpu_machine *m, const char *text);

/*
 * The newest CUDA that a driver serves, by its branch (NVIDIA's CUDA release notes, table "CUDA
 * Toolkit and Corresponding Driver Versions"); zero for a branch that is not in the table.
 */
struct gpu_version gpu_driver_cuda(const struct gpu_version *driver);

#endif
