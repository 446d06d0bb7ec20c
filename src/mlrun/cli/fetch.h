/* Bringing an image into the store before something else is done with it. */
#ifndef MLR_CLI_FETCH_H
#define MLR_CLI_FETCH_H

/* Is it an image of a registry or of a file that can be pulled? A plain directory or squashfs file
 * is used where it lies. */
int cli_fetch_can(const char *image);

/*
 * Run `mlrun pull IMAGE` as a child that says all it says on stderr and reads nothing.
 *
 *   store  --store, or NULL
 *   quiet  it says errors alone: another rank of the job tells the rest
 *
 * Returns 0, or the exit status to end with: the child has told why. A child that a signal ended
 * gives 128 and its number.
 */
int cli_fetch(const char *image, const char *store, int quiet);

#endif
