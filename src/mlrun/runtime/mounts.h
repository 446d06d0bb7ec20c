/* The container's file system: sources taken from the host, an overlay root, everything put in
 * place. */
#ifndef MLR_RUNTIME_MOUNTS_H
#define MLR_RUNTIME_MOUNTS_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/squash.h"

/*
 * Build the root that the plan describes and make it the process's "/". Must be called in the
 * new namespaces. Ends in the plan's working directory.
 *
 *   server  squash_start()'s, where the plan has a squashfs file
 */
int mounts_enter(const struct plan *p, const struct squash_server *server, struct mlr_error *err);

/* Start in the plan's working directory in a root that was made already, which is "/"; it is made
 * there when it is missing. */
int mounts_enter_workdir(const struct plan *p, struct mlr_error *err);

#endif
