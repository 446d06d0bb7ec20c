/*
 * Sums of gradients over the ranks, begun as soon as parts of them are final (backend/exchange.h:
 * ready, poll, wait), whatever carries them.
 *
 * Parts are collected into buckets, since a message costs microseconds before its first byte. The
 * buckets depend only on the parts' sizes, which are the same on all ranks, never on their
 * addresses.
 */
#pragma once

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

/* --- node_sums.c: through the memory of a node ---  */

#define NODE_SLOTS 4 /* pieces under way at once */

/* Sums x[n] over the ranks with the same local number on all nodes. */
struct node_across {
	void *ctx;
	/* Begin with piece k; at most NODE_SLOTS pieces are under way. Returns 0 or -EIO. */
	int (*start)(void *ctx, uint64_t k, float *x, size_t n, struct mlr_error *err);
	/* Is piece k summed? Pieces are asked for in their order. Returns 1, 0 or -EIO. */
	int (*test)(void *ctx, uint64_t k, struct mlr_error *err);
};

struct node_sums;

/* Return the bytes that so many ranks of a node share. */
size_t node_sums_size(int ranks);

#define NODE_SUMS_PATH     "/dev/shm/mltrain" /* and what file_temp_name() puts behind it */
#define NODE_SUMS_PATH_MAX 64

/*
 * Make that memory: a file of zeroes, of mode 0600. The caller unlinks it when all have it open.
 * Files that this user's killed processes left are removed first.
 *
 * Returns a descriptor and its path, or -1 where there is no room.
 */
int node_sums_segment(char path[NODE_SUMS_PATH_MAX], size_t size);

/* Open the memory that another process of this user made. Returns a descriptor or -1. */
int node_sums_segment_of(const char *path, size_t size);

/*
 * Share the memory.
 *
 *   fd             stays the caller's
 *   rank, ranks    on this node
 *   across         NULL: all ranks are on this node
 *
 * Returns NULL if it can't be mapped.
 */
struct node_sums *node_sums_new(int fd, int rank, int ranks, const struct node_across *across);
void node_sums_free(struct node_sums **n);

/* A struct node_sums' add and advance, as struct sums_by has them. add does not fail. */
int node_sums_add(void *sums, float *x, size_t count, struct mlr_error *err);
int node_sums_advance(void *sums, struct mlr_error *err);

/* --- ring_sums.c: in a ring of TCP connections --- */

struct ring_sums;

/*
 *   to, from      connected, non-blocking: the successor and the predecessor; taken
 *   rank, ranks   at least 2
 */
struct ring_sums *ring_sums_new(int to, int from, int rank, int ranks);
void ring_sums_free(struct ring_sums **r);

/* A struct ring_sums' add and advance, as struct sums_by has them. add does not fail. */
int ring_sums_add(void *sums, float *x, size_t n, struct mlr_error *err);
int ring_sums_advance(void *sums, struct mlr_error *err);

/* Wait until there may be progress, so many milliseconds at most. */
void ring_sums_sleep(const struct ring_sums *r, int ms);
