/*
 * Inside the plugin mltrain-mpi.so: the ranks of one MPI program, and how calls to MPI are checked
 * and waited for.
 */
#ifndef MLT_DIST_MPI_RANKS_H
#define MLT_DIST_MPI_RANKS_H

#include "dist/dist.h"
#include "dist/peers.h"

#include <mpi.h>

struct sums;     /* sums.h */
struct mpi_node; /* mpi_node.h */

struct mpi_ranks {
	struct dist dist; /* first, so that both have the same address */
	MPI_Comm all;     /* a duplicate of MPI_COMM_WORLD */
	struct peers *peers;
	struct mpi_node *node; /* NULL if the ranks of a node share no memory */
	struct sums *sums;
	MPI_Request *requests; /* of sums of gradients under way */
	int n_requests;
	int64_t late_at_ms; /* when to look next for the rank that is late */
};

/* Returns 0 if code is MPI_SUCCESS, else -EIO with "what: " and MPI_Error_string(3)'s words. */
int mpi_check(int code, const char *what, struct mlr_error *err);

/*
 * Call this again and again while waiting. It yields the CPU, and now and then checks the other
 * ranks. After ten seconds it names the rank that is late (dist.warn).
 *
 *   turns  0 at first; counts the calls
 *
 * Returns 0, or -EIO if a rank has ended.
 */
int mpi_idle(struct mpi_ranks *m, unsigned *turns, struct mlr_error *err);

/* Wait until requests [n] are complete. Returns 0 or -EIO. */
int mpi_complete(
	struct mpi_ranks *m, int n, MPI_Request *requests, const char *what, struct mlr_error *err);

#endif
