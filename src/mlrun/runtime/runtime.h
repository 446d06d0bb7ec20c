/*
 * runtime: makes a plan true - namespaces, id maps, mounts, pivot, privileges - in the calling
 * process, which then becomes the command. Alone in calling mount(2) and its kin.
 *
 * No process stays behind and none is forked: same pid before and after, so that signals, exit
 * codes, terminals, Slurm and MPI see the program itself. A squashfs image is the exception: its
 * server (runtime/squash.h) is a process, but no child of the command's.
 */
#ifndef MLR_RUNTIME_RUNTIME_H
#define MLR_RUNTIME_RUNTIME_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Put the calling process (single-threaded: unshare(2) of a user namespace needs that) into the
 * container: a user and a mount namespace, the plan's root, mounts and working directory, no
 * capabilities, no_new_privs, no descriptor above 2 inherited but plan->keep_fds.
 *
 * Where plan->share names a container that is there, or plan->join a process, that container is
 * entered as it is (runtime/share.h). With PLAN_NS_PID this returns in a child, and the caller's
 * process waits for it and ends as it does (runtime/supervise.h).
 *
 * With inner uid 0 that is not the caller's own uid (--fakeroot) the capabilities that package
 * managers need stay, over the one mapped id.
 *
 * Returns 0, or -errno with what could not be done and, where the machine forbids it, the setting
 * and the way out. After a failure the process is in an unspecified state: report and exit.
 */
int runtime_enter(const struct plan *p, struct mlr_error *err);

/*
 * Become the plan's command (after runtime_enter): searched in the inner PATH as execvp(3) does.
 *
 * Returns only on failure: -ENOENT when there is no such command, else the errno of execve(2).
 */
int runtime_exec(const struct plan *p, struct mlr_error *err);

/*
 * Add to err the setting that makes the kernel refuse user namespaces or mounts in them, as found
 * below root ("/" but for tests): user.max_user_namespaces, user.max_mnt_namespaces,
 * kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns. Adds nothing
 * when none of them explains it.
 */
void runtime_hint_userns(const char *root, struct mlr_error *err);

#endif
