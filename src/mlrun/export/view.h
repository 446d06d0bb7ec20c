/*
 * Reads the root of an image or of a container as one tar, whatever the store keeps it as: a
 * process mounts it as for a command, and reads it with the rights that it has there over all of
 * the image's files. For this room's other files.
 */
#ifndef MLR_EXPORT_VIEW_H
#define MLR_EXPORT_VIEW_H

#include "base/error.h"
#include "plan/plan.h"

#include <sys/types.h>

struct view;

/* A file to put in place of the root's. */
struct view_file {
	const char *path; /* without a leading '/' */
	const char *text;
};

/*
 * Start to read. The process must be single-threaded.
 *
 *   p      only the root counts, which is not changed
 *   files  n of them
 *
 * Returns 0 or -errno of fork(2) and pipe(2).
 */
int view_open(const struct plan *p, const struct view_file *files, size_t n, struct view **ret,
	struct mlr_error *err);

/* A layer_read_fn (layer/unpack.h) whose ctx is a struct view. */
ssize_t view_read(void *view, void *buf, size_t len, struct mlr_error *err);

/* Ends the process. NULL is fine. */
void view_free(struct view *v);

static inline void view_cleanup(struct view **v)
{
	view_free(*v);
}

#endif
