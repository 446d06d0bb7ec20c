/* Writes a bundle's config.json. */
#pragma once

#include "oci/config.h"

/*
 * Write config.json into a directory whose root file system is "rootfs". It has the host's network
 * and processes and the caller's ids, as `mlrun exec` does.
 *
 *   image  command, variables, working directory and labels; NULL: a shell
 *
 * Returns 0; -EEXIST if there is one already.
 */
int bundle_write(const char *dir, const struct oci_config *image, struct mlr_error *err);
