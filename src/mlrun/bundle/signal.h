/* Finds the processes of a container of `mlrun oci` and signals them. */
#pragma once

#include "bundle/state.h"

/* The number of the mount on which path is (beneath dir; "": dir itself), which no other mount ever
 * gets: STATX_MNT_ID_UNIQUE of statx(2). 0 before Linux 6.8. */
uint64_t bundle_mount_of(int dir, const char *path);

/* Signal the container's own process. It is held by a pidfd while its identity is checked, so that
 * no other gets the signal. Returns 0; -ESRCH if it has ended; or a negative errno. */
int bundle_signal(const struct state *s, int sig);

/* Signal every other process of the container, then its own; 0 only finds them. pids gets their
 * numbers, or is NULL. Returns how many got it. */
int bundle_signal_all(const struct state *s, int sig, struct strv *pids);
