/*
 * The other ranks, watched: one that is killed can't say so, and who waits for it in a sum would
 * wait for ever where the launcher does not end the others (srun without --kill-on-bad-exit). Those
 * of this node are known by their PID, the two neighbours on other nodes by a connection
 * (lifeline.h): the end of any rank is seen by some other, which then ends the job.
 */
#ifndef MLT_DIST_PEERS_H
#define MLT_DIST_PEERS_H

#include "base/error.h"
#include "dist/lifeline.h"

#include <stddef.h>
#include <stdint.h>
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

#define PEERS_WORDS 256

/*
 * For who has waited for long: which rank is the one waited for? Of a rank on this node /proc tells
 * that it does not run, nor any of its threads; a rank that waits like this one does run, since
 * waiting yields the CPU and nothing more. Where this rank is the only one of its node, it is one
 * elsewhere.
 *
 * To be asked again and again while the wait lasts: a process must stand still for two seconds, and
 * one that computes for long is never named.
 *
 *   now_ms  by mlr_now_ms()
 *   words   a sentence that names the rank, its host and process
 *
 * Returns 1 once for each such rank, on one of the ranks of its node alone; else 0.
 */
int peers_late(struct peers *p, int64_t now_ms, char words[PEERS_WORDS]);

/* Do all live? Returns 0, or -EIO naming one that has ended and its host. Takes microseconds. */
int peers_look(struct peers *p, struct mlr_error *err);

#endif
