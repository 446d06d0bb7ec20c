/* Finds the driver's files: libraries, programs, firmware, sockets and configuration of table.h. */
#ifndef MLR_GPU_FILES_H
#define MLR_GPU_FILES_H

#include "gpu/machine.h"
#include "gpu/nvidia/driver.h"
#include "gpu/nvidia/places.h"
#include "gpu/root.h"

/*
 * Fill in driver, refused, driver_root, driver_text, driver_version, is_open, cuda, files, missing
 * and warnings. places.h defines which directories are searched for libraries, and in which order.
 * A library counts if its name ends in the driver's version, or if it has a version of its own.
 *
 *   with_files  0: only the driver, its version and root, and warnings when its libraries are
 * missing or do not fit the loaded kernel module caps        enum gpu_capability: other files are
 * neither searched for nor missing
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

#endif
