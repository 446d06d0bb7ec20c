/* The parts of a plan that exec.c puts together, a file each. */
#ifndef MLR_EXEC_PARTS_H
#define MLR_EXEC_PARTS_H

#include "base/config.h"
#include "base/error.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* --- confinement.c: what the user's options take from the command or leave it --- */

/* The descriptors that --preserve-fds and --preserve-fd name. First of all, before one of ours
 * could be taken for one. Returns 0, -EINVAL, or -EBADF for one that is not open. */
int confinement_fds(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* --pid, --init, --ipc, --net, --hostname, --seccomp, --ulimit, --cpus, --memory and --cap-drop.
 * Returns 0, -EINVAL, -EPERM. */
int confinement_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* --- architecture.c: can this machine run the image's programs? --- */

/*
 * Compare plan->platform with the machine. Where it is another's, an emulator that is registered
 * with the kernel (/proc/sys/fs/binfmt_misc) makes up for it, and a note says so; a mere word that
 * no machine is known by is let pass, as the kernel will tell.
 *
 *   root  "/" but for tests
 *
 * Returns 0, or -ENOEXEC naming both and the way out.
 */
int architecture_check(const char *root, struct plan *p, struct mlr_error *err);

/* --- user.c: --user UID[:GID], or names that the image knows --- */

/*
 * Change the plan's inner identity, after its root is known. Only what the process is called inside
 * changes: the one id of the user namespace is mapped to the caller, so files made are the caller's
 * and no others' files open up.
 *
 *   text        "1000", "1000:100", "jovyan", "jovyan:users"
 *   image_home  set to 1 when the home directory is one of the image's
 *
 * A user that the image's /etc/passwd has brings its name, group and home directory along; without
 * that the group is the caller's, or 0 with user 0.
 *
 * Returns 0; -EINVAL; -ENOENT for a name that the image does not know; -ENOTSUP for a name where
 * the image is a squashfs file and mlrun was built without libsquashfuse.
 */
int user_plan(const char *text, struct plan *p, int *image_home, struct mlr_error *err);

/* For tests: a line of passwd(5) or group(5) text by its name or, with name NULL, by its id. Gives
 * the line's fields, at most 7, as one allocation to free(); NULL when there is none. */
char *user_find_line(const char *text, const char *name, unsigned id, char *fields[7]);

/* --- masks.c: what a container that root starts does not get of the host's /proc and /sys --- */

/*
 * To be called when the plan's last entry is /sys, after /proc: where root is the caller, /sys
 * becomes read-only, and what runc masks and makes read-only (runtime-spec's maskedPaths and
 * readonlyPaths, with the values of runc's and podman's defaults) is added, as far as the host has
 * it.
 *
 * The kernel lets root's user id write to /proc/sys, /proc/sysrq-trigger and /sys without a
 * capability; so nothing is added for others, not even a system call.
 */
int masks_plan(struct plan *p, struct mlr_error *err);

/* --- defaults.c: what the section [exec] of mlrun.conf says --- */

/* Mount the volumes of the configuration, of origin "site" or "config". A source that is not there
 * is an error that names file and line, unless the volume has the flag "optional". c may be NULL.
 */
int defaults_volumes(const struct config *c, struct plan *p, struct mlr_error *err);

/* --- join.c: a command in a container that is there already, exec --join PID --- */

/*
 * Plan a command beside the process o->join: its container, its working directory (unless -w), its
 * environment as it was when it started, changed by --env-file, -e and --unset-env.
 *
 * Returns 0; -ESRCH; -EPERM for a process that may not be looked at; -EINVAL for one that is in no
 * container of mlrun's, for a missing command, and for options that would change what the container
 * is.
 */
int join_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

#endif
