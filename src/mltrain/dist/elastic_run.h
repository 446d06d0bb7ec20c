/* Inside dist: one rank of an elastic run, shared by elastic.c and elastic_regroup.c. */
#ifndef MLT_DIST_ELASTIC_RUN_H
#define MLT_DIST_ELASTIC_RUN_H

#include "dist/door.h"
#include "dist/elastic.h"
#include "dist/node_sums.h"
#include "dist/rendezvous.h"
#include "dist/ring_sums.h"
#include "dist/sums.h"

#define ELASTIC_WAITING 64 /* newcomers that wait for a place */

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

/* A rank was lost: note it and return -EIO with the error's words. */
int elastic_break(struct elastic *e, struct mlr_error *err);

/* Close what belongs to the present generation alone. */
void elastic_drop_sums(struct elastic *e);

/* Connect to a rank and prove the secret. Returns a descriptor or -errno. */
int elastic_call(struct elastic *e, const struct member *to, struct mlr_error *err);

/* Look, without waiting, whether a connection of the star shows a loss. Returns 0 or -EIO. */
int elastic_look(struct elastic *e, struct mlr_error *err);

/* Rank 0: take in newcomers from the door, and forget those that have gone. */
void elastic_receive_newcomers(struct elastic *e);

/* Sums, gathers and broadcasts over the star: exchange.h and dist.h. */
int elastic_sum(void *ctx, double *x, size_t n, struct mlr_error *err);

/* Waiting in sums. */
int elastic_idle(void *ctx, unsigned *turns, struct mlr_error *err);

/* Write the rendezvous file, if there is one, for this process as coordinator. Without it training
 * goes on: a failure is a warning. */
void elastic_publish(struct elastic *e);

#endif
