/*
 * Inside the plugin mltrain-mpi.so: sums among the ranks of one node through shared memory, then
 * sums of these across nodes.
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
#ifndef MLT_DIST_MPI_NODE_H
#define MLT_DIST_MPI_NODE_H

#include "dist/mpi_ranks.h"

struct mpi_node;

/*
 * Share memory with the ranks of this node. Called by all ranks of all nodes.
 *
 *   node  the communicator of this node's ranks; stays the caller's
 *
 * Returns 0, with *ret NULL if sharing is useless or impossible: one rank per node, nodes with
 * different numbers of ranks, no room in /dev/shm, containers that do not share it. -EIO if MPI
 * fails.
 */
int mpi_node_new(struct mpi_ranks *m, MPI_Comm node, struct mpi_node **ret, struct mlr_error *err);
void mpi_node_free(struct mpi_node **n);

/* Begin to sum x [count]; the caller leaves the memory alone until everything is done. */
void mpi_node_add(struct mpi_node *n, float *x, size_t count);

/* Make progress without waiting. Returns 1 when everything added is summed, else 0; -EIO. */
int mpi_node_advance(struct mpi_node *n, struct mlr_error *err);

#endif
