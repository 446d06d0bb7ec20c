/* Looks whether an image would start on a machine: its labels, command, loader and MPI. GPUs are
 * gpu/check's. */
#ifndef MLR_DOCTOR_IMAGE_H
#define MLR_DOCTOR_IMAGE_H

#include "gpu/check/check.h"
#include "oci/config.h"
#include "plan/plan.h"

/*
 * Add findings about an image.
 *
 *   p     its root and the environment of its container
 *   c     its configuration, with labels
 *   root  what to take for the machine's "/": "" or a made-up one; NULL: another machine, of which
 *         only a profile is known
 *   libs  with root NULL: names of that machine's libraries; NULL: unknown
 */
void doctor_image(const struct plan *p, const struct oci_config *c, const char *root,
	const struct strv *libs, struct gpu_report *ret);

#endif
