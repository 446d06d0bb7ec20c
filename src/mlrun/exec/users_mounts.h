/* Adds the mounts of the user's options to a plan: -v, --tmpfs, --mount, --device. */
#pragma once

#include "exec/exec.h"
#include "plan/plan.h"

/* Add all of them, a directory before its contents, otherwise in the order of the options. Returns
 * 0, or an error that names the option. */
int users_mounts_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* --- volume.c: SRC[:DST[:FLAGS]] --- */

/*
 * Add one -v to the plan. SRC may be relative and must exist. DST defaults to SRC's absolute name.
 * FLAGS are separated by commas: ro, rw, nosuid, nodev, noexec; O to write to memory over the
 * directory (podman's letter); optional to do without a source that is missing or unreachable.
 * These have no effect, because mlrun mounts so anyway or has no use for them: z, Z, exec, suid,
 * dev, rbind, bind, rprivate, private, rslave, slave, cached, delegated, consistent. -ENOTSUP for
 * shared, rshared and U.
 */
int volume_plan(const char *text, struct plan *p, struct mlr_error *err);

/* The same for a configuration's volume, with another origin. */
int volume_configured(
	const char *text, enum plan_origin origin, struct plan *p, struct mlr_error *err);

/* Parse one of those flags except O (len bytes): adds to *flags. Returns 0, -EINVAL if unknown,
 * -ENOTSUP. */
int volume_flag(const char *word, size_t len, unsigned *flags, struct mlr_error *err);

/*
 * Add a host file or directory (PLAN_BIND or PLAN_OVERLAY).
 *
 *   source  may be relative and contain links
 *   target  absolute; NULL: source's absolute name
 *
 * Returns 0; -ENOENT with a hint for a missing source; -ENOTDIR for an overlay over something else;
 * or the error of plan_mount_add().
 */
int volume_add(enum plan_kind kind, const char *source, const char *target, unsigned flags,
	struct plan *p, struct mlr_error *err);

/* --- tmpfs.c: DST[:OPTIONS] --- */

/*
 * Add one --tmpfs to the plan. OPTIONS are separated by commas: size=SIZE (1g, 50%), mode=OCTAL
 * (default 1777), nr_inodes=N, and the flags of volume_flag().
 */
int tmpfs_plan(const char *text, struct plan *p, struct mlr_error *err);

/* Convert "size=…", "mode=…", "nr_inodes=…" for the kernel, tmpfs(5). Returns 0, -EINVAL for an
 * invalid value, -ENOENT for another word. */
int tmpfs_option(const char *word, struct strv *options, struct mlr_error *err);

/* Add a tmpfs with these options; mode has a default. */
int tmpfs_add(const char *target, const struct strv *options, unsigned flags, struct plan *p,
	struct mlr_error *err);

/* --- mount_spec.c: docker-run(1)'s --mount, type=bind,src=/data,dst=/data,ro --- */

/*
 * Add one --mount to the plan. The text is one record of comma-separated values (RFC 4180: a field
 * in double quotes may contain commas, and "" for a quote), each KEY=VALUE or a word.
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
 * Returns 0, -EINVAL, -ENOTSUP for what Docker has and mlrun cannot have, or the error of
 * volume_add().
 */
int mount_spec_plan(const char *text, struct plan *p, struct mlr_error *err);

/* --- device.c: /dev/x[:DST[:rwm]], and CDI names, vendor/class=name --- */

/*
 * Add one --device to the plan: a device node of the host, or a directory of them (/dev/dri). CDI
 * names are skipped: cdi_plan() adds them.
 *
 * Returns 0; -ENOENT; -ENODEV for another kind of file, or where devices do not work; -EACCES if
 * the caller may not open it, naming the group that may; -ENOTSUP for less than rwm: only a node's
 * mode restricts access.
 */
int device_plan(const char *text, struct plan *p, struct mlr_error *err);

/* The CDI names among the texts, without repetitions. */
void device_cdi_names(const struct strv *texts, struct strv *ret);
