/*
 * runtime: makes a plan true - namespaces, id maps, mounts, pivot, privileges - in the calling
 * process, which then becomes the command. The only room that calls mount(2) and its kin.
 *
 * It forks nothing and leaves nothing behind: the pid stays the same, so signals, exit codes,
 * terminals, Slurm and MPI deal with the program itself. The exceptions are a PID namespace
 * (runtime/supervise.h) and the server of a squashfs image (runtime/squash.h), which is no child of
 * the command.
 */
#pragma once

#include "plan/plan.h"

/*
 * Put the calling process into the container: a user and a mount namespace, the plan's root, mounts
 * and working directory, no capabilities, no_new_privs, and no inherited descriptor above 2 but
 * plan->keep_fds. The process must be single-threaded, as unshare(2) of a user namespace requires.
 *
 * If plan->share names an existing container, or plan->join a process, that container is entered
 * unchanged (runtime/share.h). With PLAN_NS_PID this returns in a child; the caller's process waits
 * for the child and ends as it does (runtime/supervise.h).
 *
 * If the inner uid is 0 and is not the caller's own (--fakeroot), the capabilities that package
 * managers need stay, over the one mapped id.
 *
 * Returns 0, or -errno with what failed and, if the machine forbids it, the setting and a hint.
 * After a failure the process is in an unspecified state: report and exit.
 */
int runtime_enter(const struct plan *p, struct mlr_error *err);

/* Where the process stops on its way into a new container. Each returns 0, or -errno to give up. */
struct runtime_stops {
	/* The namespaces and mounts are made, but "/" is still the host's.
	 *   root  a descriptor of the container's root */
	int (*before_pivot)(void *ctx, int root, struct mlr_error *err);
	/* All is done but for the seccomp filter, which may forbid anything. */
	int (*before_command)(void *ctx, struct mlr_error *err);
	void *ctx;
};

/* The same as runtime_enter(), with stops; NULL: none. */
int runtime_enter_stopping(
	const struct plan *p, const struct runtime_stops *stops, struct mlr_error *err);

/* Look whether the plan's command is there and can be executed, inside and without executing it.
 * Returns 0, -ENOENT or -EACCES. */
int runtime_find_command(const struct plan *p, struct mlr_error *err);

/*
 * Become the plan's command (after runtime_enter), searched in the inner PATH as execvp(3) does.
 *
 * Returns only on failure: -ENOENT if there is no such command, else the errno of execve(2).
 */
int runtime_exec(struct plan *p, struct mlr_error *err);

/*
 * Add to err the setting that makes the kernel refuse user namespaces or mounts in them, read below
 * root ("/" but for tests): user.max_user_namespaces, user.max_mnt_namespaces,
 * kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns. Adds nothing if
 * none of them explains it.
 */
void runtime_hint_userns(const char *root, struct mlr_error *err);
