/* What the user's options mount: -v, --tmpfs, --mount, --device. */
#ifndef MLR_EXEC_USERS_MOUNTS_H
#define MLR_EXEC_USERS_MOUNTS_H

#include "base/error.h"
#include "base/strv.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* Add them all to the plan, a directory before what lies in it, else in the order of the options.
 * Returns 0 or what is wrong with one, which names it. */
int users_mounts_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* --- volume.c: SRC[:DST[:FLAGS]] --- */

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

/* --- tmpfs.c: DST[:OPTIONS] --- */

/*
 * Add one --tmpfs to the plan. OPTIONS, separated by commas: size=SIZE (1g, 50%), mode=OCTAL, 1777
 * unless given, nr_inodes=N, and the flags of volume_flag().
 */
int tmpfs_plan(const char *text, struct plan *p, struct mlr_error *err);

/* Words "size=…", "mode=…", "nr_inodes=…" as the kernel wants them, tmpfs(5). Returns 0, -EINVAL
 * for a value that is none, -ENOENT for another word. */
int tmpfs_option(const char *word, struct strv *options, struct mlr_error *err);

/* Add a tmpfs with these options, which may lack a mode. */
int tmpfs_add(const char *target, const struct strv *options, unsigned flags, struct plan *p,
	struct mlr_error *err);

/* --- mount_spec.c: docker-run(1)'s --mount, type=bind,src=/data,dst=/data,ro --- */

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

/* --- device.c: /dev/x[:DST[:rwm]], and names of CDI's, vendor/class=name --- */

/*
 * Add one --device to the plan: a device node of the host's, or a directory of them (/dev/dri).
 *
 * A name of CDI's is left to cdi_plan().
 *
 * Returns 0; -ENOENT; -ENODEV for a file that is no device or lies where devices do not work;
 * -EACCES where the caller may not open it, naming the group that may; -ENOTSUP for less than rwm:
 * who may do what with a node is decided by its mode.
 */
int device_plan(const char *text, struct plan *p, struct mlr_error *err);

/* The names of CDI's among the texts, each once. */
void device_cdi_names(const struct strv *texts, struct strv *ret);

#endif
