/* Inside dist: one rank of an elastic run, shared by the files elastic*.c. */
#ifndef MLT_DIST_ELASTIC_RUN_H
#define MLT_DIST_ELASTIC_RUN_H

#include "dist/door.h"
#include "dist/elastic.h"
#include "dist/node_sums.h"
#include "dist/rendezvous.h"
#include "dist/ring_sums.h"
#include "dist/sums.h"

#define ELASTIC_WAITING 64 /* newcomers that wait for a place */

/* Why a process is refused that was a member once. */
#define ELASTIC_WITHOUT "the run went on without it, as its connection was lost"

struct elastic {
	struct dist dist; /* first, so that both have the same address */
	struct elastic_options o;
	struct secret secret;
	struct door *door;
	struct member self;
	char options[72], data[72]; /* digests that a newcomer must have too */

	struct group group; /* the present one; n is 0 until the first */
	int fd[GROUP_MAX];  /* rank 0: a connection to each other rank; others: fd[0], to rank 0;
			       -1: none */
	int broken;
	int64_t heard_ms[3]; /* when it has heard of another rank, the latest first; 0: not yet */
	struct elastic_change change;

	/* Of the present generation; NULL where there is one rank. */
	struct sums *sums;
	struct node_sums *node;
	struct ring_sums *ring;

	/* Rank 0's. */
	struct guest waiting[ELASTIC_WAITING];
	int n_waiting;
	struct rendezvous file; /* as written; a newcomer's: as read */
	int has_file;           /* o.where is a file, and this process has written it */
};

/* Close a descriptor, if it is one, and set it to -1. */
void elastic_hang_up(int *fd);

/* Close what belongs to the present generation alone. */
void elastic_drop_sums(struct elastic *e);

/* Waiting in sums. */
int elastic_idle(void *ctx, unsigned *turns, struct mlr_error *err);

/* --- elastic_star.c: sums, gathers and broadcasts over the star, as exchange.h and dist.h say ---
 */

int elastic_sum(void *ctx, double *x, size_t n, struct mlr_error *err);
int elastic_broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err);
int elastic_gather(
	struct elastic *e, const void *from, size_t bytes, void *to, struct mlr_error *err);

/* A rank was lost, -1: which is not known here. Note it and return -EIO with the error's words. */
int elastic_break(struct elastic *e, int rank, struct mlr_error *err);

/* The longest time for which this rank has heard nothing, of late. A rank that others take for lost
 * was silent for LIFELINE_SILENCE_MS at least. */
int64_t elastic_silence_ms(const struct elastic *e);

/* Look, without waiting, whether a connection of the star shows a loss. Returns 0 or -EIO. */
int elastic_look(struct elastic *e, struct mlr_error *err);

/* --- elastic_call.c ------------------------------------------------------------------------- */

/*
 * Connect to a rank and prove the secret.
 *
 * Returns a descriptor; -EHOSTUNREACH if nobody is there, so that it has ended; or another -errno,
 * which says nothing of that: a crowd at its door, a process that is stopped, too many open files.
 */
int elastic_call(struct elastic *e, const struct member *to, struct mlr_error *err);

/* --- elastic_guests.c ----------------------------------------------------------------------- */

/* Rank 0: take in newcomers from the door, and forget those that have gone. */
void elastic_receive_newcomers(struct elastic *e);

/*
 * Answer ranks that take this run's coordinator for lost (FRAME_REJOIN, FRAME_WATCH): those that
 * the group has left out are told so. A member of the group waits for the next change.
 */
void elastic_answer_left_out(struct elastic *e);

/* Rank 0: whoever still is at the door learns that the run is over. */
void elastic_tell_end(struct elastic *e);

/* Say why a caller is not taken in, and hang up. */
void elastic_refuse(int fd, const char *why);

/* --- elastic_meet.c ------------------------------------------------------------------------- */

/* Find the run, or begin it: elastic_open(). */
int elastic_meet(struct elastic *e, struct mlr_error *err);

/* Write the rendezvous file, if there is one, for this process as coordinator. Without it training
 * goes on: a failure is a warning. */
void elastic_publish(struct elastic *e);

/*
 * May this rank go on without those of its group that are lost, or was it left out itself? The
 * others may have gone on, or ended the run, while it was stopped or cut off: then it must not
 * write over their work. The rendezvous file tells. With HOST:PORT there is none; a rank that has
 * lost all others then goes on if it has heard of them lately.
 *
 *   is_alone   all others are lost
 *
 * Returns 0, -ESTALE if this rank was left out, or what failed when reading the file.
 */
int elastic_check_run(struct elastic *e, int is_alone, struct mlr_error *err);

#endif
