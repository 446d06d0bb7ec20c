/* The containers that run on this node: found in /proc, for there is no record of our own. */
#ifndef MLR_RUNTIME_RUNNING_H
#define MLR_RUNTIME_RUNNING_H

#include "base/error.h"
#include "base/strv.h"
#include "runtime/container.h"

#include <stdint.h>
#include <sys/types.h>

struct running {
	struct container container;
	pid_t pid; /* its oldest process, as seen from here; mlrun's own do not count */
	size_t processes;
	int64_t started;     /* that process; seconds since the epoch */
	struct strv command; /* its arguments; empty where it hides them */
};

struct running_list {
	struct running *v; /* oldest first */
	size_t n;
};

#define RUNNING_LIST_INIT \
	{                 \
		NULL, 0   \
	}
void running_list_done(struct running_list *l);

/*
 * Find the caller's containers; root finds everybody's. Other users' processes, and those that may
 * not be looked at, are passed over. Returns 0, or -errno when /proc cannot be read.
 */
int running_find(struct running_list *ret, struct mlr_error *err);

#endif
