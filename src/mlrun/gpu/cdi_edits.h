/* What a CDI file says of a container, made into entries of a plan. */
#ifndef MLR_GPU_CDI_EDITS_H
#define MLR_GPU_CDI_EDITS_H

#include "gpu/cdi_spec.h"
#include "gpu/gpu.h"
#include "gpu/root.h"
#include "plan/plan.h"

/* One call's work on a plan. */
struct gpu_cdi_job {
	struct gpu_dir root;
	char *root_path;               /* of gpu_root(), without links; "" for "/" */
	const struct gpu_image *image; /* or NULL */
	struct plan *p;
	struct mlr_error *err;
	struct strv links; /* that hooks ask for: a path inside, then the link's text, and so on */
};

/* Refuse what an ordinary user's container cannot have. Returns 0 or -ENOTSUP. */
int gpu_cdi_edits_check(const struct gpu_cdi_edits *e, struct mlr_error *err);

/*
 * Variables, nodes and mounts.
 *
 *   what  "device 'nvidia.com/gpu=0' of '/etc/cdi/nvidia.yaml'", for remarks
 *
 * Returns as gpu_cdi_plan().
 */
int gpu_cdi_edits_plan(struct gpu_cdi_job *job, const struct gpu_cdi_edits *e, const char *what);

/* Is it among the plan's entries of CDI's already? */
int gpu_cdi_is_planned(
	const struct plan *p, enum plan_kind kind, const char *source, const char *target);

#endif
