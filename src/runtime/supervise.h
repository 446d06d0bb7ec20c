/*
 * A process of ours that waits outside for a command in a PID namespace of its own: unshare(2) moves
 * children only, so here a second process cannot be spared.
 */
#ifndef MLR_RUNTIME_SUPERVISE_H
#define MLR_RUNTIME_SUPERVISE_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Fork after unshare(CLONE_NEWPID). Returns 0 in the child, which is pid 1 of the namespace, or -errno.
 *
 * The parent does not return: it hands on the signals that are sent to it alone (not those that the
 * terminal sends to the whole group), stops and continues with the child, and ends as the child does:
 * with its status, or killed by its signal (the shell then sees 128+n). Should the parent be killed,
 * the child is too (PR_SET_PDEATHSIG), and with pid 1 the whole namespace.
 */
int supervise_fork(struct mlr_error *err);

/*
 * With plan->init: become pid 1's usual work. Forks once more; the parent, pid 1, reaps whatever ends,
 * hands on signals to the child and ends as the child does. Returns 0 in the child, or -errno. Called
 * last, when privileges are dropped and descriptors are closed.
 */
int supervise_init(struct mlr_error *err);

#endif
