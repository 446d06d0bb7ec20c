/* Adds the chosen GPUs and the driver's files to a plan. */
#pragma once

#include "gpu/choice/choice.h"
#include "gpu/gpu.h"
#include "gpu/inject/compat.h"
#include "gpu/machine.h"

/*
 * Directories for the driver's libraries, created in memory for each container. So nothing of the
 * image is hidden or changed, and no stale library is found first. CUDA's images have them in
 * LD_LIBRARY_PATH.
 */
#define GPU_LIB_DIR   "/usr/local/nvidia/lib64"
#define GPU_LIB32_DIR "/usr/local/nvidia/lib"

/* Add nodes, files, links, variables and /proc/driver/nvidia. Returns 0 or -errno. */
int gpu_inject(const struct gpu_machine *m, const struct gpu_wish *w, const struct gpu_choice *c,
	const struct gpu_image *image, struct plan *p, struct mlr_error *err);

/* The context that the parts of one injection share. */

struct gpu_injection {
	const struct gpu_machine *machine;
	const struct gpu_wish *wish;
	const struct gpu_choice *choice;
	const struct gpu_image *image;
	const struct gpu_compat *compat;
	struct plan *plan;
	size_t first; /* number of the plan's mounts before the injection */
};

/* Does the container get this vendor's driver? NVIDIA's may be wanted without a GPU. */
int gpu_injection_has(const struct gpu_injection *i, enum gpu_vendor vendor);

/* Is any of these capabilities wanted? */
int gpu_injection_wants(const struct gpu_injection *i, unsigned caps);

/* Does the container get this file of the driver? */
int gpu_injection_takes(const struct gpu_injection *i, const struct gpu_file *f);

/* The default path in the container: the machine's without driver_root. Points into path. */
const char *gpu_injection_inside(const struct gpu_injection *i, const char *path);

/*
 * Bind a path of the machine, below gpu_root(), to target; a second bind to a target is skipped.
 * flags: enum plan_flag.
 */
int gpu_injection_bind(const struct gpu_injection *i, const char *path, const char *target,
	unsigned flags, struct mlr_error *err);

/* Add device nodes and the links to them; libraries and the links to them; /proc/driver/nvidia.
 * Each returns 0 or -errno. */
int gpu_nodes_plan(const struct gpu_injection *i, struct mlr_error *err);
int gpu_libraries_plan(const struct gpu_injection *i, struct mlr_error *err);
int gpu_procfs_plan(const struct gpu_injection *i, struct mlr_error *err);

/* For --gpu=none: hide the host's GPUs in /proc/driver/nvidia, if that exists. */
int gpu_procfs_hide(struct plan *p, struct mlr_error *err);
