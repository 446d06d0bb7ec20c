/* Mounts as docker-run(1)'s --mount has them: type=bind,src=/data,dst=/data,ro. */
#ifndef MLR_EXEC_MOUNT_SPEC_H
#define MLR_EXEC_MOUNT_SPEC_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Add one --mount to the plan. The text is one record of comma-separated values (RFC 4180: a field
 * in double quotes may hold commas, and "" for a quote), each KEY=VALUE or a word.
 *
 *   type              bind (default), tmpfs, overlay
 *   source, src       of bind and overlay; must exist
 *   destination, dst, target
 *   readonly, ro      [=true|false]
 *   nosuid, nodev, noexec
 *   tmpfs-size, tmpfs-mode
 *   bind-propagation  private, rprivate, slave, rslave
 *   bind-recursive    enabled, readonly: what mlrun does anyway
 *
 * Returns 0, -EINVAL, -ENOTSUP for what Docker has and mlrun cannot have, or what volume_add()
 * says.
 */
int mount_spec_plan(const char *text, struct plan *p, struct mlr_error *err);

#endif
