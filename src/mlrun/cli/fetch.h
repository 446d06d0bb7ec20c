/*
 * Fetches an image that a start needs.
 */
#pragma once

#include "exec/exec.h"

/*
 * Run `mlrun pull IMAGE` as a child that writes only to stderr and reads nothing.
 *
 *   store  --store, or NULL
 *   quiet  print only errors
 *
 * Returns 0, or the exit status to end with, after the child printed the error; 128 plus the number
 * of a signal that ended it.
 */
int cli_pull(const char *image, const char *store, int quiet);

/* Can the image be fetched? A plain directory, a squashfs file and a container are used in place.
 */
int cli_can_fetch(const char *image);

/*
 * For struct exec_options: fetch its image. Of the ranks of a step on one node one does; the others
 * wait for it and share its result, also a failure, which it alone reports.
 */
int cli_fetch(const struct exec_options *o);

/* Does this process print for all ranks of the job? */
int cli_is_spokesman(void);
