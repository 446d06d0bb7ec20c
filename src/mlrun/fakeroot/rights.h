/*
 * What a process may do with files that has become another user: it is judged by the owners and
 * modes that it sees, as the kernel sees one user only. For this room's other files.
 */
#pragma once

#include "fakeroot/ids.h"
#include "fakeroot/records.h"

/* Find the owner and mode that are shown of an open file, perhaps O_PATH. Returns 0, or -1 for a
 * file of another user of the host's, whom the kernel judges. */
int fakeroot_shown(int fd, struct stat *st, struct file_owner *ret);

/* May it read, write or execute the file (R_OK, W_OK, X_OK)? */
int fakeroot_may(const struct fakeroot_ids *ids, int fd, int want);

/* May it search the directories on a path, but for those of links? Cuts slashes off the path's
 * end. */
int fakeroot_may_search(
	const struct asked *a, const struct fakeroot_ids *ids, int dirfd, char *path);

/* May it read, write or execute the file that the call names? Returns 1 also if the kernel will say
 * what is wrong. */
int fakeroot_may_use(const struct asked *a, const struct fakeroot_ids *ids, int want);

/* Directories' modes or names change: look anew. for_good: paths mean different things to
 * different processes. */
void fakeroot_ways_forget(int for_good);

/* Is the file its own? */
int fakeroot_owns(const struct fakeroot_ids *ids, int fd);
