/* Shifter's volumes: FROM:TO[:FLAG]... */
#pragma once

#include "exec/exec.h"

/*
 * Add volumes, separated by ';', to the options. Flags: "ro"; "rec", "slave" and "private", which
 * change nothing; "perNodeCache=size=SIZE[,...]", an empty directory in memory at TO of at most
 * SIZE (its other words, of the file system in Shifter's file, change nothing).
 *
 *   is_site  of udiRoot.conf, where TO may be missing
 *
 * Returns 0, or -EINVAL.
 */
int shifter_volumes_add(
	const char *text, int is_site, struct exec_options *o, struct mlr_error *err);

/*
 * Add a mount in the form of --mount, type=bind or type=per-node-cache with destination= and size=.
 * Returns 0, or -EINVAL.
 */
int shifter_mount_add(const char *text, struct exec_options *o, struct mlr_error *err);
