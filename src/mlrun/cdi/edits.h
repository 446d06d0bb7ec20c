/* What a CDI file says of a container, made into entries of a plan. */
#ifndef MLR_CDI_EDITS_H
#define MLR_CDI_EDITS_H

#include "cdi/spec.h"
#include "gpu/gpu.h"
#include "gpu/root.h"
#include "plan/plan.h"

/* One call's work on a plan. */
struct cdi_job {
	struct gpu_dir root;
	char *root_path;               /* of gpu_root(), without links; "" for "/" */
	const struct gpu_image *image; /* or NULL */
	struct plan *p;
	struct mlr_error *err;
	struct strv links; /* that hooks ask for: a path inside, then the link's text, and so on */
};

/* Refuse what an ordinary user's container cannot have. Returns 0 or -ENOTSUP. */
int cdi_edits_check(const struct cdi_edits *e, struct mlr_error *err);

/*
 * Variables, nodes and mounts.
 *
 *   what  "device 'nvidia.com/gpu=0' of '/etc/cdi/nvidia.yaml'", for remarks
 *
 * Returns as cdi_plan().
 */
int cdi_edits_plan(struct cdi_job *job, const struct cdi_edits *e, const char *what);

/* Is it among the plan's entries of CDI's already? */
int cdi_is_planned(
	const struct plan *p, enum plan_kind kind, const char *source, const char *target);

#endif
