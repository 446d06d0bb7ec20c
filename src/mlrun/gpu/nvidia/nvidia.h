/* Finds NVIDIA's GPUs, their device nodes, their driver and its files on this machine. */
#pragma once

#include "gpu/root.h"
#include "gpu/nvidia/places.h"

/* Find the driver and its files first, then the devices (struct gpu_vendor_row). */
int gpu_nvidia_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

/* --- devices.c, mig.c: by /proc/driver/nvidia, /sys and /dev --- */

/*
 * Fill in gpus (NVIDIA's, with MIG and DRM nodes), nodes, fabric, has_caps and warnings: nodes
 * missing because nvidia-modprobe never ran, nodes closed to the user, nodes with a wrong number.
 * m->driver must be known. Returns 0 or -errno.
 */
int gpu_devices_find(const struct gpu_dir *d, struct gpu_machine *m, struct mlr_error *err);

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

/* --- driver.c --- */

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

/* --- files.c, driver_libraries.c --- */

/*
 * Fill in driver, refused, driver_root, driver_text, driver_version, is_open, cuda, files, missing
 * and warnings. places.h defines which directories are searched for libraries, and in which order.
 * A library counts if its name ends in the driver's version, or if it has a version of its own.
 *
 *   with_files  0: only the driver, its version and root, and warnings when its libraries are
 *               missing or do not fit the loaded kernel module
 *   caps        enum gpu_capability: other files are neither searched for nor missing
 *
 * Returns 0 or -errno.
 */
int gpu_files_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

/*
 * Add to m->files the libraries of table.h that caps bring, each real file once, for 64 bits and
 * with GPU_COMPAT32 for 32; add those not found to m->missing.
 *
 * Of each row the first place with a valid file counts: a library of this machine's kind, whose
 * real name ends in the driver's version (or that has its own). Libraries of the driver that a
 * taken one needs (DT_NEEDED) are taken too, with the same capabilities, so that libraries newer
 * than the tables are not missing.
 */
void gpu_driver_libraries_find(const struct gpu_places *p, unsigned caps, struct gpu_machine *m);

/* The same on WSL: /usr/lib/wsl/lib, and the driver's store below /usr/lib/wsl/drivers, which keeps
 * its path because its libraries are searched for there. */
void gpu_wsl_libraries_find(const struct gpu_dir *d, unsigned caps, struct gpu_machine *m);
