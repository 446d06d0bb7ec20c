/*
 * Elastic ranks: processes that join and leave a run at step boundaries. A version of struct dist
 * besides `alone` and `mpi`, without MPI.
 *
 * One rank, the oldest, is the coordinator (group.h). Every other one has a connection to it, over
 * which small sums go (a star); gradients are summed through shared memory if all ranks are on one
 * machine (node_sums.c), else in a ring of TCP connections (ring_sums.c). A change of the group:
 *
 *   1. Every rank calls elastic_regroup() at the same step, because a sum over all ranks asked for
 * it (elastic_wants_change()), or when its own exchange has failed (elastic_is_broken()).
 *   2. Every rank reports to the coordinator where it stands. A rank is lost if its connection is.
 *      A rank that has lost the coordinator reports to the next oldest that answers.
 *   3. The coordinator decides the next generation and sends it to all, so they agree; a rank that
 *      does not receive it has lost the coordinator, or was lost itself.
 *   4. Ranks connect. Those that are behind, newcomers among them, take the weights of one that is
 *      not (elastic_share()).
 *
 * A step's gradients are either summed completely, and then every rank that has the sum updates its
 * weights to the same bits, or they are not. After a loss ranks therefore stand at most one step
 * apart, and all go on from the one that has come farthest: an orderly change costs no step, a
 * death at most the step under way.
 */
#pragma once

#include "dist/dist.h"
#include "dist/group.h"

struct elastic_options {
	const char *where;           /* a rendezvous file, or HOST:PORT */
	const char *secret_file;     /* for HOST:PORT; NULL: $MLTRAIN_ELASTIC_SECRET */
	int min, max;                /* ranks */
	volatile sig_atomic_t *stop; /* nonzero: this rank wants to leave */
};

/* The outcome of a change for this rank. */
enum elastic_outcome {
	ELASTIC_MEMBER,  /* this rank is in the group */
	ELASTIC_LEFT,    /* it has left */
	ELASTIC_STOPPED, /* it wanted to leave while the group waited for enough ranks */
	ELASTIC_OVER,    /* the run has ended */
};

/* The latest change, for records. */
struct elastic_change {
	uint32_t generation;
	int joined, left, lost;
};

/* Is where HOST:PORT rather than a file's name? */
int elastic_is_address(const char *where);

/*
 * Find the run, or begin one. A process that begins one is rank 0 of 1. Another one's rank is not 0
 * until elastic_enter(), by which it should have its data ready.
 *
 * Returns 0, -EACCES for a wrong secret or a file of another user, -ENOENT, -EINVAL, -EPROTO.
 */
int elastic_open(const struct elastic_options *o, struct dist **ret, struct mlr_error *err);

/* Is this a newcomer, without weights? */
int elastic_is_newcomer(const struct dist *d);

/* Return the most ranks that the run may have. */
int elastic_most(const struct dist *d);

/* Set what must be equal on all ranks before the first elastic_regroup(): options by their names,
 * GROUP_OPTIONS at most, and the data's digest. */
void elastic_say_options(struct dist *d, const json_t *options, const char *data);

/* Rank 0: is there a newcomer and a place for it? Takes microseconds. */
int elastic_wants_change(struct dist *d);

/* Did an operation fail because a rank was lost? elastic_regroup() goes on then. */
int elastic_is_broken(const struct dist *d);

/*
 * Change the group, all ranks together. Afterwards d->rank, d->ranks and the exchange are those of
 * the new generation. A newcomer waits here until it is let in; all wait for the least ranks.
 *
 *   at      where this rank stands
 *   leaves  it wants to leave
 *   ret     what became of it
 *
 * Returns 0, -ESTALE if the run went on without this rank, -EPROTO if it was refused.
 */
int elastic_regroup(struct dist *d, const struct group_progress *at, int leaves,
	enum elastic_outcome *ret, struct mlr_error *err);

struct elastic_change elastic_latest(const struct dist *d);

/* Is there a rank, after elastic_regroup(), that needs weights? And is this one? */
int elastic_must_share(const struct dist *d);
int elastic_needs(const struct dist *d);

/* Copy bytes from the rank that has come farthest to those that need them. All ranks call it alike.
 * Returns 0 or -EIO. */
int elastic_share(struct dist *d, void *bytes, size_t size, struct mlr_error *err);

/* End the run, so that nobody joins any more: rank 0 informs the others, which wait for it here.
 * Returns 0, or -EIO if rank 0 was lost before: the others repeat what was to be done. */
int elastic_finish(struct dist *d, struct mlr_error *err);
