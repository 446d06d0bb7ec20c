/* What of the host a plan's mounts are made of, taken before the host goes out of sight. */
#ifndef MLR_RUNTIME_SOURCE_H
#define MLR_RUNTIME_SOURCE_H

#include "base/error.h"
#include "plan/plan.h"

#include <sys/types.h>

/* One of a plan's mounts on its way into the container. */
struct source {
	int fd;     /* a cloned mount, or an open file or directory; -1: there is none */
	int is_dir; /* of what is mounted */
	int absent; /* an optional source that is not there: nothing to do */
	int done;   /* it is in place: nothing more to do */
	int fresh;  /* the place to mount at was made by us, of the right kind */
};

/* Open those of a whole plan; one a mount, in its order, to sources_close() with their number. */
int sources_open(const struct plan *p, struct source **ret, struct mlr_error *err);
void sources_close(struct source *s, size_t n);

/* The bytes of a PLAN_COPY, to free(). Returns their number or -errno. */
ssize_t source_read(
	const struct source *s, const struct plan_mount *m, char **ret, struct mlr_error *err);

#endif
