/*
 * Watches the other ranks. A killed rank can't report its end, and ranks that wait for it in a sum
 * would wait for ever if the launcher does not end them (srun without --kill-on-bad-exit). Ranks of
 * this node are watched by PID, the two neighbours on other nodes by a connection (lifeline.h).
 * Some rank therefore notices the end of any other, and then ends the job.
 */
#pragma once

#include "dist/lifeline.h"

/* The place of a rank, for the others. */
struct peer {
	int rank;
	pid_t pid;
	char host[64];
	char pid_namespace[32]; /* PIDs are comparable only within one; "" if unknown */
	struct lifeline_offer offer;
};

struct peers;

/* Describe this process. *offered gets a descriptor for peers_new(), or -1. */
struct peer peer_self(int rank, int *offered);

/*
 * Watch processes.
 *
 *   all      [n] by rank, copied
 *   offered  will be closed
 */
struct peers *peers_new(const struct peer *all, int n, const struct peer *self, int offered);
void peers_free(struct peers **p);

#define PEERS_WORDS 256

/*
 * Find the rank that is late, after a long wait. /proc shows that a rank on this node does not run,
 * nor do its threads. A rank that waits like this one does run, since waiting only yields the CPU.
 * If this rank is the only one on its node, the late rank is elsewhere.
 *
 * Call it repeatedly while the wait lasts. A process must stand still for two seconds, and one that
 * computes for long is never named.
 *
 *   now_ms  by mlr_now_ms()
 *   words   a sentence that names the rank, its host and process
 *
 * Returns 1 once for each such rank, on only one of the ranks of its node; else 0.
 */
int peers_late(struct peers *p, int64_t now_ms, char words[PEERS_WORDS]);

/* Are all alive? Returns 0, or -EIO naming a rank that ended and its host. Takes microseconds. */
int peers_look(struct peers *p, struct mlr_error *err);
