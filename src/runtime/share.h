/*
 * One container for several processes of a user on a node: the first that says plan->share makes it,
 * the others enter its user and mount namespaces. So ranks of one job read each other's memory
 * (process_vm_readv(2) wants one user namespace) and see one root.
 *
 * Meeting place: a file in a directory of the user's own in the node's memory
 * (/dev/shm/mlrun-UID, mode 0700), named by the word's hash and locked by flock(2) while somebody
 * makes the container. It lists the processes inside, by pid and start time; whoever of them lives
 * is the door (setns(2) by a pidfd), so a first process that dies leaves the others' way open. When
 * none lives the next comer is the first again. Nobody stays behind; the file is removed by the one
 * who finds it stale.
 */
#ifndef MLR_RUNTIME_SHARE_H
#define MLR_RUNTIME_SHARE_H

#include "base/error.h"
#include "plan/plan.h"

struct share {
	int fd; /* the meeting place's file, locked while the container is being made */
};

#define SHARE_INIT { -1 }

/*
 * Enter the container of plan->share if it is there, else keep the others waiting until
 * share_open() or share_done().
 *
 * Returns 1: entered, its namespaces are the process's and its root is "/"; 0: the caller shall make
 * it; -errno.
 */
int share_enter(const struct plan *p, struct share *ret, struct mlr_error *err);

/* The container is ready, privileges are dropped: let the others in, through this process. */
int share_open(struct share *s, struct mlr_error *err);

void share_done(struct share *s);

/* Enter the container of a process (--join): every namespace that differs from ours. Only a
 * process of the same user, in a container that mlrun made. Returns 0, -ESRCH, -EPERM, -EINVAL. */
int share_join(pid_t pid, struct mlr_error *err);

#endif
