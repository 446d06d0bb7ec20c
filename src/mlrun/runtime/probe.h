/* Tries whether a file system lets an ordinary user do what a store of layer trees needs. */
#pragma once

#include "base/base.h"
#include "base/filesystem.h"

/*
 * Probe a directory, in a temporary subdirectory "probe.<16 hex>". A child process mounts the
 * overlay in its own namespaces.
 *
 * Returns 0, or -errno if not even files can be made there.
 */
int runtime_probe(int dir_fd, struct filesystem_probe *ret, struct mlr_error *err);
