/*
 * One container for several processes of a user on a node: the first process with a given
 * plan->share makes it, and the others enter its user and mount namespaces. The ranks of a job can
 * then read each other's memory (process_vm_readv(2) requires one user namespace) and see one root.
 *
 * Processes with the same word whose containers differ (image, mounts, read-only, other namespaces)
 * share only the user namespace, and each kind has its own root. Two programs of one MPI job may
 * therefore run in two images, and ranks may have different devices.
 *
 * They meet at a file in a private directory in the node's memory (runtime/meeting.h; mode
 * 0700). Its name is made from the word's hash and the caller's namespaces. A process that makes a
 * container locks it exclusively (flock(2)) until it executes its command, because only then may
 * others inspect it; the descriptor is close-on-exec. The file lists the processes inside by pid
 * and start time, and a newcomer joins through any of them that is alive (runtime/door.h). The
 * first process may therefore end at any time. If none is alive, the newcomer is the first again.
 * No process stays behind; later makers of containers remove files that list no living process.
 *
 * Any process of the user can write to the file, even one in a container. It is therefore only a
 * hint: the root mount of the process joined must bear this plan's keys (runtime/container.h).
 */
#pragma once

#include "plan/plan.h"
#include "runtime/meeting.h"

struct share {
	struct meeting meeting; /* locked */
	int made;               /* this process makes the container */
	int entered;            /* CLONE_NEW... of the namespaces entered */
	int in_user_namespace;  /* in the others' user namespace, which it has entered */
	struct container_keys keys;
};

#define SHARE_INIT                      \
	{                               \
		.meeting = MEETING_INIT \
	}

enum share_entered {
	SHARE_NOBODY,      /* no process is there: make the container */
	SHARE_ENTERED,     /* the process is in its namespaces, with its root as "/" */
	SHARE_ENTERED_PID, /* the process's children will also be in its PID namespace */
};

/*
 * Enter the container of plan->share if it exists; otherwise lock out the others until share_open()
 * or share_done(). Does nothing without plan->share.
 *
 * Returns enum share_entered or -errno: -EPERM if the user can have no private directory, or if no
 * process inside lets others in; -ETIMEDOUT if another process has kept the lock for a minute.
 */
int share_enter(const struct plan *p, struct share *ret, struct mlr_error *err);

/* Let others join through this process once it has executed its command. Call it in the process
 * that becomes the command, after it has dropped its privileges. */
int share_open(struct share *s, struct mlr_error *err);

void share_done(struct share *s);

/* Enter the container of the process plan->join (--join): every namespace that differs from the
 * caller's. The process must belong to the same user and be in a container that mlrun made. Returns
 * enum share_entered, -ESRCH, -EPERM, -EINVAL. */
int share_join(const struct plan *p, struct mlr_error *err);
