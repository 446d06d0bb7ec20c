/* One injection on its way into a plan: what its parts share. */
#ifndef MLR_GPU_INJECTION_H
#define MLR_GPU_INJECTION_H

#include "gpu/choice/choice.h"
#include "gpu/inject/compat.h"
#include "gpu/gpu.h"
#include "gpu/machine.h"
#include "gpu/choice/wish.h"

struct gpu_injection {
	const struct gpu_machine *machine;
	const struct gpu_wish *wish;
	const struct gpu_choice *choice;
	const struct gpu_image *image;
	const struct gpu_compat *compat;
	struct plan *plan;
	size_t first; /* the plan's mounts before it */
};

/* Does the container get this vendor's driver? NVIDIA's also without a GPU, when that is what is
 * wanted. */
int gpu_injection_has(const struct gpu_injection *i, enum gpu_vendor vendor);

/* Is any of these capabilities wanted? */
int gpu_injection_wants(const struct gpu_injection *i, unsigned caps);

/* Is this file of the driver's one that the container gets? */
int gpu_injection_takes(const struct gpu_injection *i, const struct gpu_file *f);

/* Where a path of the machine is inside, unless said otherwise: the same path, without the
 * directory that a driver lies in as a whole. Points into path. */
const char *gpu_injection_inside(const struct gpu_injection *i, const char *path);

/*
 * Bind a path of the machine, below gpu_root() on the host, to a target inside; not twice to the
 * same.
 *
 *   flags  enum plan_flag
 */
int gpu_injection_bind(const struct gpu_injection *i, const char *path, const char *target,
	unsigned flags, struct mlr_error *err);

/* Its parts, each of which returns 0 or -errno: device nodes with the links to them; libraries with
 * theirs, in directories of our own; /proc/driver/nvidia. */
int gpu_nodes_plan(const struct gpu_injection *i, struct mlr_error *err);
int gpu_libraries_plan(const struct gpu_injection *i, struct mlr_error *err);
int gpu_procfs_plan(const struct gpu_injection *i, struct mlr_error *err);

/* --gpu=none: nothing of the host's GPUs is seen below /proc/driver/nvidia. Nothing to do where
 * there is no such directory. */
int gpu_procfs_hide(struct plan *p, struct mlr_error *err);

#endif
