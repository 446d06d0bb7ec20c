/* The driver's files: libraries, programs, firmware, sockets, configuration, by the tables of
 * table.h. */
#ifndef MLR_GPU_FILES_H
#define MLR_GPU_FILES_H

#include "gpu/nvidia/driver.h"
#include "gpu/machine.h"
#include "gpu/root.h"

/*
 * Fill in driver, refused, driver_root, driver_text, driver_version, is_open, cuda, files, missing
 * and warnings. Libraries are looked for in the directories and in the order that places.h tells;
 * one counts when its name ends in the driver's version or it is of those that have their own.
 *
 *   with_files  0: only the driver, its version and its root, and among the warnings whether its
 *               libraries are there and fit the running kernel module
 *   caps        enum gpu_capability: files that none of them brings are neither looked for nor
 * missing
 *
 * Returns 0 or -errno.
 */
int gpu_files_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err);

#endif
