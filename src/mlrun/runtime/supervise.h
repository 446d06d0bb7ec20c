/*
 * A process of ours that waits outside for a command in a PID namespace of its own: unshare(2)
 * moves children only, so here a second process cannot be spared.
 *
 * The kernel treats a namespace's first process unlike others: signals whose default is to end or
 * stop it are not delivered (pid_namespaces(7)). When the command itself is that process, the one
 * outside does what the default would have done, so that ^C, ^Z and kill(1) work as without a
 * namespace of its own.
 */
#ifndef MLR_RUNTIME_SUPERVISE_H
#define MLR_RUNTIME_SUPERVISE_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Fork after unshare(CLONE_NEWPID), or setns(2) of a PID namespace. Returns 0 in the child, which
 * is in the namespace (its pid 1 if it is new), or -errno.
 *
 * The parent does not return: it hands on the signals that are sent to it alone (not those that the
 * terminal sends to the whole group), stops and continues with the child, and ends as the child
 * does: with its status, or killed by its signal (the shell then sees 128+n). It has no privileges,
 * nor any of the caller's descriptors open. Should it be killed, the child is too
 * (PR_SET_PDEATHSIG), and with pid 1 the whole namespace. What kill(2) sends to the whole process
 * group reaches the command twice; SIGCONT is handed on to a command that is stopped.
 *
 *   proc  a descriptor of the /proc that shows the caller's PID namespace; stays the caller's
 */
int supervise_fork(int proc, struct mlr_error *err);

/*
 * With plan->init: become pid 1's usual work. Forks once more; the parent, pid 1, reaps whatever
 * ends, hands on signals to the child and ends as the child does. Returns 0 in the child, or
 * -errno. Called when privileges are dropped; descriptors of the caller's are closed in the parent.
 */
int supervise_init(struct mlr_error *err);

#endif
