/* The directory of the user's own in the node's memory, in which processes that share a container
 * meet. */
#ifndef MLR_RUNTIME_MEETING_DIR_H
#define MLR_RUNTIME_MEETING_DIR_H

#include "base/error.h"

#define MEETING_PLACE "/dev/shm"

/*
 * Find it, or make it where it is missing: mlrun-UID, or mlrun-UID.1 and so on where others have
 * made something of that name; where they have taken all of these, one that no one can guess, which
 * is warned of when it is made. All of a user's processes find the same.
 *
 * Returns a descriptor, or -EACCES when it is open to others.
 */
int meeting_dir_open(struct mlr_error *err);

#endif
