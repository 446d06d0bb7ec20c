/*
 * shifter: what Shifter's users and sites write, as mlrun has it: images, volumes, modules and
 * udiRoot.conf. Fills struct exec_options and a plan.
 *
 * Here: which image is meant.
 */
#pragma once

#include "base/base.h"

/*
 * Turn Shifter's [TYPE:]NAME into a name for mlrun exec. Types:
 *
 *   docker, custom  a name; a transport of mlrun's (oci:, rootfs:) may follow
 *   id              the manifest's SHA-256 in hex: an image of the store
 *   local           a directory, or a squashfs file
 *
 * standard: the type of a name without one. Returns 0 and a name to free(), or -EINVAL.
 */
int shifter_image_name(const char *text, const char *standard, char **ret, struct mlr_error *err);

/*
 * The image that the environment asks for, [TYPE:]NAME, to free(); NULL if it asks for none. Later
 * ones win: SHIFTER, SHIFTER_IMAGE with SHIFTER_IMAGETYPE, and both with SLURM_SPANK_ before them.
 */
char *shifter_image_wanted(void);
