/*
 * Inside the plugin mltrain-mpi.so: the ranks that one MPI program has, and how a call to MPI ends.
 */
#ifndef MLT_DIST_MPI_RANKS_H
#define MLT_DIST_MPI_RANKS_H

#include "dist/dist.h"
#include "dist/peers.h"

#include <mpi.h>

struct mpi_sums; /* mpi_sums.h */
struct mpi_node; /* mpi_node.h */

struct mpi_ranks {
	struct dist dist; /* first: the same address */
	MPI_Comm all;     /* a duplicate of MPI_COMM_WORLD */
	struct peers *peers;
	struct mpi_node *node; /* NULL: ranks of a node share no memory */
	struct mpi_sums *sums;
	int64_t late_at_ms; /* when to ask next who is waited for */
};

/* code is MPI_SUCCESS: 0; else -EIO, "what: " and the words of MPI_Error_string(3). */
int mpi_check(int code, const char *what, struct mlr_error *err);

/*
 * Something is waited for and not there yet: the CPU is given to others that want it, and now and
 * then the other ranks are looked after. Who is waited for is told after ten seconds (dist.warn).
 *
 *   turns  0 at first; counts the calls
 *
 * Returns 0, or -EIO when a rank has ended.
 */
int mpi_idle(struct mpi_ranks *m, unsigned *turns, struct mlr_error *err);

/* Wait until requests [n] are complete. Returns 0 or -EIO. */
int mpi_complete(
	struct mpi_ranks *m, int n, MPI_Request *requests, const char *what, struct mlr_error *err);

#endif
