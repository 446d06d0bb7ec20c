/* `mlrun gpu top --log`: samples as CSV (RFC 4180), for a job's record. */
#ifndef MLR_CLI_TOP_LOG_H
#define MLR_CLI_TOP_LOG_H

#include "base/error.h"
#include "cli/top.h"

/*
 * Open a file to append to, and give it a header when it is empty; one that begins with another
 * line is refused. Several processes, on several nodes too, may write to one file: each writes
 * whole lines at its end under a lock (fcntl(2)), which NFS and Lustre have.
 *
 * Returns a descriptor, -EEXIST for a file that is no log, or another -errno.
 */
int top_log_open(const char *path, struct mlr_error *err);

/* Append a line a GPU, or one without a GPU where there is none. Returns 0 or -errno. */
int top_log_add(int fd, const char *path, const struct top *t, struct mlr_error *err);

/* Those lines, to free(). For tests. */
char *top_log_lines(const struct top *t);

extern const char top_log_header[];

#endif
