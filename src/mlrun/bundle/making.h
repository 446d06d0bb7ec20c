/* The process that a command of `mlrun oci` forks: a new container's, or another one in a container
 * that runs. For this room's other files. */
#pragma once

#include "bundle/lifecycle.h"
#include "bundle/state.h"
#include "plan/plan.h"
#include "runtime/door.h"

/* The state that both sides have at the fork. plan.join: the container's process; 0: it is a new
 * one. */
struct making {
	struct bundle bundle;
	struct plan plan;
	struct state state;
	int talk[2]; /* the command's end and the container's */
	int listener, console, call;
	int door[DOOR_KINDS]; /* a created container's namespaces; 0: not opened */
	int status;           /* 126 or 127: the command cannot be executed */
};

#define MAKING_INIT                                                                             \
	{                                                                                       \
		.bundle = BUNDLE_INIT, .state = STATE_INIT, .talk = { -1, -1 }, .listener = -1, \
		.console = -1, .call = -1                                                       \
	}

void making_done(struct making *m);

/* The profile is read as a file, runtime/seccomp.h. */
int making_keep_seccomp(struct making *m, struct mlr_error *err);

/* Fork the process; child gets it. With a PID namespace it is not the container's own. */
int making_fork(
	const struct lifecycle_options *o, struct making *m, pid_t *child, struct mlr_error *err);

/* Receive what the process must say next, and let it go on. */
int making_expect(struct making *m, enum talk_what what, struct talk_message *ret, pid_t *sender,
	struct mlr_error *err);
int making_go_on(struct making *m, struct mlr_error *err);

/* Write the pid to a file, if path names one. */
int making_put_pid(const char *path, pid_t pid, struct mlr_error *err);
