/* Starts mlrun's children. */
#ifndef MLR_WORK_CHILD_H
#define MLR_WORK_CHILD_H

#include "base/strv.h"

#include <sys/types.h>

/*
 * Start a program as the leader of a process group, with no signal blocked or ignored.
 *
 *   in, out, errs  its standard streams; -1: in is /dev/null, out and errs are the caller's
 *
 * Returns 0 or -errno.
 */
int child_start(
	const char *program, const struct strv *argv, int in, int out, int errs, pid_t *ret);

#endif
