/* The containers that run on this node, found in /proc; mlrun keeps no record. */
#pragma once

#include "runtime/container.h"

struct running {
	struct container container;
	pid_t pid; /* its oldest process, in the caller's PID namespace; not mlrun's own */
	size_t processes;
	int64_t started;     /* when that process started, in seconds since the epoch */
	struct strv command; /* its arguments; empty if it hides them */
};

struct running_list {
	struct running *v; /* oldest first */
	size_t n;
};

void running_list_done(struct running_list *l);

/*
 * Find the caller's containers; root finds all users'. Skips other users' processes and those that
 * the caller may not inspect. Returns 0, or -errno if /proc cannot be read.
 */
int running_find(struct running_list *ret, struct mlr_error *err);
