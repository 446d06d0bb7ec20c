/*
 * Sums among the ranks of one node through shared memory, then sums of these across nodes.
 *
 * Open MPI's non-blocking sums send everything to one rank and back, three times as slow here as
 * its blocking ones. The blocking ones can't be watched or abandoned. Here every rank sums its
 * slice of each piece from all the others' memory, which copies no more than necessary.
 *
 *     piece k      rank 0's memory [slice 0][slice 1]      rank 1's memory [slice 0][slice 1]
 *     give         copies slice 1 to its slot              copies slice 0 to its slot
 *     sum          slice 0 = own + rank 1's slot           slice 1 = rank 0's slot + own
 *     (across)     slice 0 over all nodes' ranks 0         slice 1 over all nodes' ranks 1
 *     take         copies slice 1 from rank 1's slot       copies slice 0 from rank 0's slot
 *
 * Sums follow the order of ranks, so they have the same bits on every rank and in every run.
 */
#ifndef MLT_DIST_NODE_SUMS_H
#define MLT_DIST_NODE_SUMS_H

#include "base/base.h"

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

#endif
