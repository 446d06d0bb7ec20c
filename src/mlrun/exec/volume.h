/* Volumes as users write them: SRC[:DST[:FLAGS]]. */
#ifndef MLR_EXEC_VOLUME_H
#define MLR_EXEC_VOLUME_H

#include "base/error.h"
#include "plan/plan.h"

#include <stddef.h>

/*
 * Add one -v to the plan. SRC may be relative; it must exist. DST is SRC's absolute name unless
 * given. FLAGS, separated by commas: ro, rw, nosuid, nodev, noexec; O for writing to memory over
 * the directory (podman's letter); and accepted without effect, because mlrun mounts so anyway or
 * has no use for them: z, Z, exec, suid, dev, rbind, bind, rprivate, private, rslave, slave,
 * cached, delegated, consistent. What is asked for by shared, rshared and U cannot be had:
 * -ENOTSUP.
 */
int volume_plan(const char *text, struct plan *p, struct mlr_error *err);

/* The same of a configuration: of another origin, and with one more flag, "optional": a
 * source that is not there or cannot be reached is left out. */
int volume_configured(
	const char *text, enum plan_origin origin, struct plan *p, struct mlr_error *err);

/* One of those flags (len bytes of it), but O: adds to *flags. Returns 0, -EINVAL for what is none,
 * -ENOTSUP. */
int volume_flag(const char *word, size_t len, unsigned *flags, struct mlr_error *err);

/*
 * Add a host file or directory (PLAN_BIND or PLAN_OVERLAY).
 *
 *   source  may be relative and hold links
 *   target  absolute; NULL: source's absolute name
 *
 * Returns 0; -ENOENT with the way out where there is no such source; -ENOTDIR for an overlay of
 * something else; or what plan_mount_add() says.
 */
int volume_add(enum plan_kind kind, const char *source, const char *target, unsigned flags,
	struct plan *p, struct mlr_error *err);

#endif
