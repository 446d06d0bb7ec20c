/*
 * One container for several processes of a user on a node: the first that says plan->share makes
 * it, the others enter its user and mount namespaces. So ranks of one job read each other's memory
 * (process_vm_readv(2) wants one user namespace) and see one root.
 *
 * Processes that say the same word but differ in what their containers are (image, mounts,
 * read-only, other namespaces) share the user namespace alone, each kind with a root of its own:
 * two programs of one MPI job may run in two images, and ranks may have different devices.
 *
 * Meeting place: a file in a directory of the user's own in the node's memory
 * (runtime/meeting_dir.h; mode 0700), named by the word's hash and the caller's namespaces, locked
 * by flock(2) while somebody makes a container: exclusively, until his command is executed (the
 * descriptor is close-on-exec), because only then may others look at him. It lists the processes
 * inside, by pid and start time; whoever of them lives is the door (runtime/door.h), so a first
 * process that dies at any moment leaves the others' way open. When none lives the next comer is
 * the first again. Nobody stays behind; files that name nobody alive are removed by those who make
 * a container later.
 *
 * The file can be written to by any process of the user, also by one in a container, so it is only
 * a hint: the door's own root mount must bear the keys that this plan has (runtime/container.h).
 */
#ifndef MLR_RUNTIME_SHARE_H
#define MLR_RUNTIME_SHARE_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/container.h"
#include "runtime/meeting.h"

struct share {
	struct meeting meeting; /* locked */
	int made;               /* this process makes a container */
	int in_user_namespace;  /* it does so in the user namespace of others, which it is in */
	struct container_keys keys;
};

#define SHARE_INIT                      \
	{                               \
		.meeting = MEETING_INIT \
	}

enum share_entered {
	SHARE_NOBODY,      /* nobody is there: make the container */
	SHARE_ENTERED,     /* its namespaces are the process's, its root is "/" */
	SHARE_ENTERED_PID, /* also its PID namespace, in which children will be */
};

/*
 * Enter the container of plan->share if it is there, else keep the others waiting until
 * share_open() or share_done(). Without plan->share nothing is done.
 *
 * Returns enum share_entered or -errno: -EPERM when no directory can be the user's own or when
 * nobody can enter through those who are in the container, -ETIMEDOUT when somebody has kept the
 * lock for a minute.
 */
int share_enter(const struct plan *p, struct share *ret, struct mlr_error *err);

/* In the process that will be the command, its privileges dropped: let others in through it, once
 * it has executed the command. */
int share_open(struct share *s, struct mlr_error *err);

void share_done(struct share *s);

/* Enter the container of a process (--join): every namespace that differs from ours. Only a
 * process of the same user, in a container that mlrun made. Returns enum share_entered, -ESRCH,
 * -EPERM, -EINVAL. */
int share_join(pid_t pid, struct mlr_error *err);

#endif
