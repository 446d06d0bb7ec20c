/*
 * The other ranks, watched: one that is killed can't say so, and who waits for it in a sum would
 * wait for ever where the launcher does not end the others (srun without --kill-on-bad-exit). Those
 * of this node are known by their PID, the two neighbours on other nodes by a connection
 * (lifeline.h): the end of any rank is seen by some other, which then ends the job.
 */
#ifndef MLT_DIST_PEERS_H
#define MLT_DIST_PEERS_H

#include "base/error.h"
#include "trainer/dist/lifeline.h"

#include <stddef.h>
#include <sys/types.h>

/* Where a rank is, as it tells the others. */
struct peer {
	int rank;
	pid_t pid;
	char host[64];
	char pid_namespace[32]; /* a pid means the same process only within one; "" unknown */
	struct lifeline_offer offer;
};

struct peers;

/* This process. *offered gets a descriptor for peers_new(), or -1. */
struct peer peer_self(int rank, int *offered);

/*
 * Watch processes.
 *
 *   all      [n] by rank, copied
 *   offered  is closed
 */
struct peers *peers_new(const struct peer *all, int n, const struct peer *self, int offered);
void peers_free(struct peers **p);

/* Do all live? Returns 0, or -EIO naming one that has ended and its host. Takes microseconds. */
int peers_look(struct peers *p, struct mlr_error *err);

#endif
