/* Messages between the command and the container's process that it makes, and later between `start`
 * and that process. */
#pragma once

#include "base/base.h"

enum talk_what {
	TALK_MADE = 1, /* the namespaces and mounts are there; start, mounts, root_mount are set */
	TALK_READY,    /* the container waits for `start` */
	TALK_GO,       /* go on; pid is set */
	TALK_START,    /* a call: execute the command */
	TALK_ENTER,    /* a call: the answers shall bring the namespaces, a descriptor each */
	TALK_TAKEN,    /* the container's process has taken the call */
	TALK_FAILED,   /* error is set */
};

struct talk_message {
	enum talk_what what;
	pid_t pid;                /* TALK_GO: the container's, as the command sees it */
	unsigned long long start; /* proc_stat's, which /proc may hide from the command */
	uint64_t mounts;          /* inode number of the mount namespace */
	uint64_t root_mount;      /* of the root; 0: unknown (bundle/state.h) */
	int status; /* TALK_FAILED: 126 or 127 if the command cannot be executed, or 0 */
	struct mlr_error error;
};

/* Make the two ends: the first is the command's. */
int talk_pair(int ends[2], struct mlr_error *err);

/* Send a message. Returns 0 or -errno. */
int talk_send(int fd, const struct talk_message *m);

/* Receive one; sender gets the sender's pid, and may be NULL. Returns 0; -EPIPE at the end. */
int talk_receive(int fd, struct talk_message *ret, pid_t *sender);

/* The socket "start" in a directory: listen at it, or call. Return a descriptor or -errno. */
int talk_listen(int dir);
int talk_call(int dir);
