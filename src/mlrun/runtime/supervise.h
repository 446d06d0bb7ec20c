/*
 * Supervises a command in its own PID namespace, from outside. unshare(2) moves only children into
 * the namespace, so a second process is unavoidable here.
 *
 * The kernel treats the namespace's first process specially: it does not deliver signals whose
 * default action is to end or stop it (pid_namespaces(7)). If the command is that process, the
 * supervisor outside performs the default action, so ^C, ^Z and kill(1) work as usual.
 */
#pragma once

#include "plan/plan.h"

/* A task of the parent after the child's end, with all signals blocked, in the working
 * directory, which it otherwise leaves. */
struct supervise_end {
	int (*fn)(void *ctx); /* returns 0, or the exit status instead of the child's 0 */
	void *ctx;
	int fd; /* stays open, as standard error does */
};

/*
 * Fork after unshare(CLONE_NEWPID), or setns(2) of a PID namespace. Returns 0 in the child, which
 * is in the namespace (as pid 1 if it is new), or -errno.
 *
 * The parent does not return. It forwards signals sent to it alone (not those that the terminal
 * sends to the whole group), stops and continues with the child, and ends as the child does: with
 * its status, or by its signal (the shell then sees 128+n). It has no privileges and keeps none of
 * the caller's descriptors. If it is killed, so is the child (PR_SET_PDEATHSIG), and with pid 1 the
 * whole namespace. What kill(2) sends to the whole process group reaches the command twice; SIGCONT
 * is forwarded to a stopped command.
 *
 *   proc  a descriptor of the /proc that shows the caller's PID namespace; stays the caller's
 *   dies_with_parent  the waiting process is killed when its own parent ends
 *   end   the parent does this, too; NULL: nothing
 *
 * With `end` it may be called without a new PID namespace.
 */
int supervise_fork(
	int proc, int dies_with_parent, const struct supervise_end *end, struct mlr_error *err);

/* With plan->detached, in its place: the child is the caller's sibling (clone(2), CLONE_PARENT),
 * and the caller ends with status 0. Returns 0 in the child, or -errno. */
int supervise_detach(struct mlr_error *err);

/*
 * With plan->init, do the usual work of pid 1. Forks once more: the parent, pid 1, reaps all
 * children, forwards signals to its child and ends as it does. Returns 0 in the child, or -errno.
 * Call it after privileges are dropped; the parent closes the caller's descriptors.
 */
int supervise_init(struct mlr_error *err);
