/* The user's private directory in the node's memory, where processes that share a container
 * meet. */
#ifndef MLR_RUNTIME_MEETING_DIR_H
#define MLR_RUNTIME_MEETING_DIR_H

#include "base/error.h"

#define MEETING_PLACE "/dev/shm"

/*
 * Find the directory, or make it: mlrun-UID, or mlrun-UID.1 and so on if other users have taken the
 * name. If they have taken all of these, it gets a random name, and a warning says so when it is
 * made. All processes of a user find the same directory.
 *
 * Returns a descriptor, or -EACCES if others may enter it.
 */
int meeting_dir_open(struct mlr_error *err);

#endif
