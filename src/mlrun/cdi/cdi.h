/*
 * Container Device Interface: adds devices that a vendor's file describes to a plan
 * (github.com/cncf-tags/container-device-interface, SPEC.md 1.1.0). The files are *.json and *.yaml
 * in /etc/cdi and /var/run/cdi; they are not trusted.
 */
#pragma once

#include "gpu/gpu.h"
#include "gpu/machine.h"
#include "plan/plan.h"

#include <jansson.h>

/* Is text a qualified name, "nvidia.com/gpu=0"? */
int cdi_is_name(const char *text);

/* Does the name select GPUs, so that --gpu need not add any: class "gpu", or vendor nvidia.com? */
int cdi_is_gpu(const char *name);

/* Check that the devices exist and that a user's container can have their edits. Returns like
 * cdi_plan(), which checks nodes and mounts too. */
int cdi_check(const struct strv *names, struct mlr_error *err);

/*
 * Add the edits of devices, and those of each file involved once: variables, nodes (bound from the
 * host), mounts, and the effect of NVIDIA's known hooks (hook.h). Nothing is executed. Call it
 * after the plan has its default mounts and its environment, and before the user's own mounts.
 * Variables set by the user or by a configuration file stay.
 *
 * If only some of a vendor's GPUs are selected, CUDA_VISIBLE_DEVICES and its kin are removed where
 * the caller's environment sets them to numbers.
 *
 *   names  "vendor/class=device"; "=all" has no special meaning; repetitions are harmless
 *   image  NULL: the image cannot be read, and CUDA's forward compatibility is not considered
 *
 * Returns 0; -ENODEV for a device that no file describes, naming those that exist; -EPROTO for an
 * invalid file, naming the place; -EEXIST for a device in two files; -ENOENT for a file or node
 * that the machine lacks; -EACCES when the user may open none of a device's nodes; -ENOTSUP for
 * what an ordinary user's container cannot have (other hooks, netDevices, …). After a failure,
 * discard the plan.
 */
int cdi_plan(const struct strv *names, const struct gpu_image *image, struct plan *p,
	struct mlr_error *err);

/* List all qualified names, sorted. problems describes invalid files and ambiguous names. */
void cdi_list(struct strv *ret, struct strv *problems);

/*
 * Describe this machine as a CDI specification of kind "nvidia.com/gpu", with a device for each GPU
 * and MIG part, and "all"; under Windows (WSL), only "all". Its version is the lowest that has all
 * the fields used. Links and the linker's cache are made by NVIDIA's nvidia-cdi-hook, which other
 * runtimes run; where this machine lacks it, the file has no hooks, and a warning says so.
 *
 * Returns -ENODEV without an NVIDIA GPU that can be opened; -ENOTSUP on an unsupported machine.
 */
int cdi_spec(const struct gpu_machine *m, json_t **ret, struct mlr_error *err);
