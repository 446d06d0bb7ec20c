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

/* A rank was lost: note it and return -EIO with the error's words. */
int elastic_break(struct elastic *e, struct mlr_error *err);

/* Look, without waiting, whether a connection of the star shows a loss. Returns 0 or -EIO. */
int elastic_look(struct elastic *e, struct mlr_error *err);

/* --- elastic_call.c ------------------------------------------------------------------------- */

/* Connect to a rank and prove the secret. Returns a descriptor or -errno. */
int elastic_call(struct elastic *e, const struct member *to, struct mlr_error *err);

/* --- elastic_guests.c ----------------------------------------------------------------------- */

/* Rank 0: take in newcomers from the door, and forget those that have gone. */
void elastic_receive_newcomers(struct elastic *e);

/* Say why a caller is not taken in, and hang up. */
void elastic_refuse(int fd, const char *why);

/* --- elastic_meet.c ------------------------------------------------------------------------- */

/* Find the run, or begin it: elastic_open(). */
int elastic_meet(struct elastic *e, struct mlr_error *err);

/* Write the rendezvous file, if there is one, for this process as coordinator. Without it training
 * goes on: a failure is a warning. */
void elastic_publish(struct elastic *e);

#endif
