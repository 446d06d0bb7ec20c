/* Finds out which NVIDIA driver the kernel runs. */
#ifndef MLR_GPU_DRIVER_H
#define MLR_GPU_DRIVER_H

#include "gpu/machine.h"
#include "gpu/root.h"

/*
 * Fill in driver, refused, driver_text, driver_version, is_open and cuda from /etc/nv_tegra_release
 * and the device tree, /proc/driver/nvidia/version, /dev/dxg, /dev/nvidiactl. With the last alone
 * the version stays unknown.
 */
void gpu_driver_find(const struct gpu_dir *d, struct gpu_machine *m);

/* Is text a driver's version, "535.104.05"? Its first number is above 100, unlike other
 * versions. */
int gpu_driver_is_version(const char *text);

/* Set driver_text, driver_version and cuda. */
void gpu_driver_set_version(struct gpu_machine *m, const char *text);

/*
 * The newest CUDA that a driver supports, by its branch (NVIDIA's CUDA release notes, table "CUDA
 * Toolkit and Corresponding Driver Versions"); zero for an unknown branch.
 */
struct gpu_version gpu_driver_cuda(const struct gpu_version *driver);

#endif
