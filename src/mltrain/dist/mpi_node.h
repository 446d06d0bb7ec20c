/*
 * Inside the plugin mltrain-mpi.so: node_sums.h among the ranks of an MPI program, with MPI across
 * nodes.
 */
#ifndef MLT_DIST_MPI_NODE_H
#define MLT_DIST_MPI_NODE_H

#include "dist/mpi_ranks.h"
#include "dist/node_sums.h"

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

/* Its sums, borrowed. */
struct node_sums *mpi_node_sums(struct mpi_node *n);

#endif
