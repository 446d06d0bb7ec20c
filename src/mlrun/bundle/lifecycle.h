/*
 * The operations of runtime-spec, runtime.md.
 *
 * `create` forks a process that becomes the container, up to its command, and waits at a socket in
 * the state's directory. `start` calls there. `run` does both, stays as the parent, and removes the
 * container at the end.
 */
#pragma once

#include "base/base.h"

struct lifecycle_options {
	const char *root; /* of all containers; NULL: the default, bundle/state.h */
	const char *id;
	const char *bundle;         /* its directory */
	const char *config;         /* another file for config.json, or NULL */
	const char *pid_file;       /* gets the container's pid; or NULL */
	const char *console_socket; /* gets its terminal; or NULL */
	int keep_keyring;           /* the container has the caller's session keyring */
	int preserve_fds;           /* that many from 3 on */
	int detach;                 /* lifecycle_run(), lifecycle_exec(): leave it running */
	int keep;                   /* lifecycle_run(): leave the state of the ended container */
};

/* Make a container that waits for lifecycle_start(). Returns 0; -EEXIST; or what bundle_plan(),
 * runtime_enter() and hooks return. After a failure there is no container; status gets 127 or 126
 * if it lacks the command or cannot execute it, else 0. */
int lifecycle_create(const struct lifecycle_options *o, int *status, struct mlr_error *err);

/* Execute the command. Returns 0; -ENOENT also if the container lacks the command; -EINVAL for a
 * container that does not wait. */
int lifecycle_start(const char *root, const char *id, struct mlr_error *err);

/* Create, start, wait, delete; signals go to the container.
 *
 *   status  gets the command's exit status, 128 + n for signal n
 */
int lifecycle_run(const struct lifecycle_options *o, int *status, struct mlr_error *err);

/* Another command in a container that runs or waits for its start. */
struct lifecycle_exec {
	struct lifecycle_options o; /* bundle, config and keep have no meaning */
	const char *process;        /* a file with its "process" (config.md); or NULL: that of the
				     * container with the members below */
	struct strv argv, env;      /* env: further NAME=VALUE */
	const char *cwd;            /* or NULL */
	int terminal;
};

/* Run it. status gets its exit status unless detached; after a failure 127 or 126 if the command
 * cannot be executed, else 0. Returns 0; -EINVAL for a container that does not run. */
int lifecycle_exec(const struct lifecycle_exec *x, int *status, struct mlr_error *err);

/* Signal the container's process, or with all every process in it. Returns 0, or -EINVAL if it has
 * ended. */
int lifecycle_kill(const char *root, const char *id, int sig, int all, struct mlr_error *err);

/* Freeze all processes of a running container, or let those of a paused one go on. Returns 0;
 * -EINVAL in another state; -ENOTSUP without a control group that the caller may write to. */
int lifecycle_pause(const char *root, const char *id, struct mlr_error *err);
int lifecycle_resume(const char *root, const char *id, struct mlr_error *err);

/* Delete a container that has ended, or with force any, by killing it. Processes that it left are
 * killed. Returns 0; -EBUSY for one that has not ended. */
int lifecycle_delete(const char *root, const char *id, int force, struct mlr_error *err);
