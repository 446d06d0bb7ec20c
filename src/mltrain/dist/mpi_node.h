/*
 * Inside the plugin mltrain-mpi.so: sums between the ranks of one node through memory that they
 * share, and between nodes of what each node has summed.
 *
 * Open MPI's non-blocking sums send everything to one rank and back, three times as slow here as
 * its blocking ones, and those can't be watched or left. Here every rank sums its slice of each
 * piece from all the others' memory: what is copied is what must be.
 *
 *     piece k      rank 0's memory [slice 0][slice 1]      rank 1's memory [slice 0][slice 1]
 *     give         copies slice 1 to its slot              copies slice 0 to its slot
 *     sum          slice 0 = own + rank 1's slot           slice 1 = rank 0's slot + own
 *     (across)     slice 0 over all nodes' ranks 0         slice 1 over all nodes' ranks 1
 *     take         copies slice 1 from rank 1's slot       copies slice 0 from rank 0's slot
 *
 * Sums go by the order of ranks, so that they have the same bits on all of them and each time.
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
 * Returns 0 with *ret NULL where that brings nothing or can't be: one rank a node, nodes with
 * unlike numbers of ranks, no room in /dev/shm, containers that do not share it. -EIO when MPI
 * fails.
 */
int mpi_node_new(struct mpi_ranks *m, MPI_Comm node, struct mpi_node **ret, struct mlr_error *err);
void mpi_node_free(struct mpi_node **n);

/* Begin to sum x [count]; the memory stays the caller's and is not touched until all is done. */
void mpi_node_add(struct mpi_node *n, float *x, size_t count);

/* Do what can be done now. Returns 1 when everything added is summed, else 0; -EIO. */
int mpi_node_advance(struct mpi_node *n, struct mlr_error *err);

#endif
