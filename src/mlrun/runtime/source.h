/* The host's parts of a plan's mounts, opened before the host's tree is out of reach. */
#pragma once

#include "plan/plan.h"
#include "runtime/stack.h"

/* A mount of the plan on its way into the container. */
struct source {
	int fd;            /* a cloned mount, or an open file or directory; or -1 */
	char *layers;      /* PLAN_OVERLAY's options with descriptors for directories; or NULL */
	struct stack dirs; /* those */
	int is_dir;        /* the source is a directory */
	int absent;        /* an optional source that does not exist: skip it */
	int done;          /* already in place */
	int fresh;         /* mlrun made the place to mount at, of the right kind */
};

/* Open the sources of a whole plan: an array with one for each mount, in order. Pass it and its
 * length to sources_close(). */
int sources_open(const struct plan *p, struct source **ret, struct mlr_error *err);
void sources_close(struct source *s, size_t n);

/* Read the bytes of a PLAN_COPY, to free(). Returns their number or -errno. */
ssize_t source_read(
	const struct source *s, const struct plan_mount *m, char **ret, struct mlr_error *err);
