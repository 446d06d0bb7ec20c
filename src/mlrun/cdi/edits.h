/* Turns the container edits of a CDI file into entries of a plan. */
#pragma once

#include "cdi/spec.h"
#include "gpu/gpu.h"
#include "gpu/root.h"
#include "plan/plan.h"

/* A call's work on a plan. */
struct cdi_job {
	struct gpu_dir root;
	char *root_path;               /* gpu_root() resolved; "" for "/" */
	const struct gpu_image *image; /* or NULL */
	struct plan *p;
	struct mlr_error *err;
	struct strv links; /* links requested by hooks: path, text, path, text, … */
};

/* Refuse edits that an ordinary user's container cannot have. Returns 0 or -ENOTSUP. */
int cdi_edits_check(const struct cdi_edits *e, struct mlr_error *err);

/*
 * Add variables, nodes and mounts.
 *
 *   what  "device 'nvidia.com/gpu=0' of '/etc/cdi/nvidia.yaml'", for remarks
 *
 * Returns like cdi_plan().
 */
int cdi_edits_plan(struct cdi_job *job, const struct cdi_edits *e, const char *what);

/* Does the plan already have this entry from CDI? source may be NULL: any. */
int cdi_is_planned(
	const struct plan *p, enum plan_kind kind, const char *source, const char *target);
