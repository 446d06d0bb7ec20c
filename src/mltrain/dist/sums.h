/*
 * Sums of gradients over the ranks, begun as soon as parts of them are final (backend/exchange.h:
 * ready, poll, wait), whatever carries them.
 *
 * Parts are collected into buckets, since a message costs microseconds before its first byte. The
 * buckets depend only on the parts' sizes, which are the same on all ranks, never on their
 * addresses.
 */
#ifndef MLT_DIST_SUMS_H
#define MLT_DIST_SUMS_H

#include "base/base.h"

/* A way to sum memory over the ranks, piece after piece. */
struct sums_by {
	void *carrier; /* add's and advance's: struct node_sums, for one */
	/* Begin to sum x [n]; it is left alone until everything is done. Returns 0 or -EIO. */
	int (*add)(void *carrier, float *x, size_t n, struct mlr_error *err);
	/* Make progress without waiting. Returns 1 when everything added is summed, else 0; -EIO,
	 * -ECONNRESET and kin if another rank is gone. */
	int (*advance)(void *carrier, struct mlr_error *err);
	void *ctx;
	/* Between two calls of advance() that had to wait: struct exchange's idle. */
	int (*idle)(void *ctx, unsigned *turns, struct mlr_error *err);
};

/* Memory that a way has been given. */
struct sums_piece {
	float *x;
	size_t n;
};

/* Pieces under way: piece k is v[k % room]. */
struct sums_queue {
	struct sums_piece *v;
	size_t room;
	uint64_t added;
};

/* Add a piece. Those from number `first` on are kept. */
void sums_queue_add(struct sums_queue *q, uint64_t first, float *x, size_t n);

#define SUMS_CHUNK 1024 /* floats added at a time */

/* Add x [n] to sum. */
void sums_plus(float *restrict sum, const float *restrict x, size_t n);

struct sums;

struct sums *sums_new(const struct sums_by *by);
void sums_free(struct sums **s);

/* Failures here are reported by wait. */
void sums_ready(struct sums *s, float *part, size_t count);
void sums_poll(struct sums *s);
int sums_wait(struct sums *s, struct mlr_error *err);

#endif
