/* The driver's files: libraries, programs, firmware, sockets, configuration, by the tables of
 * table.h. */
#ifndef MLR_GPU_FILES_H
#define MLR_GPU_FILES_H

#include "gpu/machine.h"
#include "gpu/nvidia/driver.h"
#include "gpu/nvidia/places.h"
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

/*
 * Add what table.h names and one of these capabilities brings to m->files, each real file once, for
 * 64 bits and with GPU_COMPAT32 for 32; what lacks, to m->missing.
 *
 * Of each row the first place counts that has a fit file: its real name ends in the driver's
 * version (or it has one of its own), it is a library of this machine's kind. What a taken library
 * needs (DT_NEEDED) of the driver is taken too and comes with whatever capability brings the
 * needing one, so that a library of which no table knows yet is not amiss.
 */
void gpu_driver_libraries_find(const struct gpu_places *p, unsigned caps, struct gpu_machine *m);

/* The same on WSL: /usr/lib/wsl/lib, and the driver's store below /usr/lib/wsl/drivers, which goes
 * to its own path as its libraries are looked for there. */
void gpu_wsl_libraries_find(const struct gpu_dir *d, unsigned caps, struct gpu_machine *m);

#endif
