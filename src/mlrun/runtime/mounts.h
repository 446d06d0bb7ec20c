/* The container's file system: takes sources from the host, mounts the root, and puts everything in
 * place. */
#pragma once

#include "plan/plan.h"
#include "runtime/runtime.h"
#include "runtime/squash.h"

/*
 * Build the root that the plan describes and make it the process's "/". Must be called in the new
 * namespaces. Ends in the plan's working directory.
 *
 *   server  from squash_start(), if the plan has a squashfs file
 *   stops   may be NULL
 */
int mounts_enter(const struct plan *p, const struct squash_server *server,
	const struct runtime_stops *stops, struct mlr_error *err);

/* Enter the plan's working directory in an existing root, which is "/" already. Makes the directory
 * if it is missing. */
int mounts_enter_workdir(const struct plan *p, struct mlr_error *err);
