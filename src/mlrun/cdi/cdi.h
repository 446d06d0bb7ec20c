/*
 * Container Device Interface: devices that a vendor's file describes
 * (github.com/cncf-tags/container-device-interface, SPEC.md 1.1.0). Files: /etc/cdi and
 * /var/run/cdi, *.json and *.yaml; hostile input.
 */
#ifndef MLR_CDI_CDI_H
#define MLR_CDI_CDI_H

#include "gpu/gpu.h"
#include "gpu/machine.h"
#include "plan/plan.h"

#include <jansson.h>

struct gpu_machine;

/* Is it a qualified name, "nvidia.com/gpu=0"? */
int cdi_is_name(const char *text);

/* Does such a name stand for GPUs, so that --gpu need bring none: of class "gpu", or any of
 * nvidia.com's? */
int cdi_is_gpu(const char *name);

/* Are there such devices, and can a user's container have what their files say? Returns as
 * cdi_plan(), which looks at nodes and mounts as well. */
int cdi_check(const struct strv *names, struct mlr_error *err);

/*
 * Add devices' edits, and once those of each file that has one: variables, nodes (bound from the
 * host's), mounts, and what NVIDIA's known hooks would do (hook.h). Nothing is executed.
 * Entries' origin is "cdi". To be called when the plan has its default mounts and its environment,
 * and before the user's own mounts; a variable that the user, his or the site's configuration has
 * set stays.
 *
 * Where they are some of a vendor's GPUs, the caller's CUDA_VISIBLE_DEVICES and its kin with
 * numbers go.
 *
 *   names  "vendor/class=device"; "=all" is a name like others; each of them once or more
 *   image  NULL: it cannot be looked into, and CUDA's forward compatibility is not asked for
 *
 * Returns 0; -ENODEV for a device that no file has, naming those that are there; -EPROTO for a file
 * that is wrong, naming where; -EEXIST for a device in two files; -ENOENT for a file or node that
 * the machine lacks; -EACCES when the user may open none of a device's nodes; -ENOTSUP for what an
 * ordinary user's container cannot have (other hooks, netDevices, …). The plan is to be thrown away
 * then.
 */
int cdi_plan(const struct strv *names, const struct gpu_image *image, struct plan *p,
	struct mlr_error *err);

/* All qualified names, sorted. Files that are wrong, and two that have the same, are named in
 * problems. */
void cdi_list(struct strv *ret, struct strv *problems);

/*
 * This machine as a CDI specification of kind "nvidia.com/gpu", with a device a GPU and MIG part
 * and "all", of the lowest version that has what it says; under Windows (WSL) with "all" alone.
 *
 *   hook  mlrun's own path: runtimes run `mlrun gpu hook`, which makes links and the linker's cache
 * inside
 *
 * Returns -ENODEV on a machine that has no GPU of NVIDIA's which can be opened; -ENOTSUP on one
 * that is refused.
 */
int cdi_spec(const struct gpu_machine *m, const char *hook, json_t **ret, struct mlr_error *err);

#endif
