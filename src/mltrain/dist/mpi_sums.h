/*
 * Inside the plugin mltrain-mpi.so: sums of gradients over the ranks, begun as soon as parts of
 * them are final (backend/exchange.h: ready, poll, wait).
 *
 * Parts are collected into buckets, since a message costs microseconds before its first byte. How
 * they are collected depends on their sizes alone, which all ranks have alike, and never on where
 * they lie.
 */
#ifndef MLT_DIST_MPI_SUMS_H
#define MLT_DIST_MPI_SUMS_H

#include "dist/mpi_ranks.h"

struct mpi_sums *mpi_sums_new(struct mpi_ranks *m);
void mpi_sums_free(struct mpi_sums **s);

/* What fails here is told by wait. */
void mpi_sums_ready(struct mpi_sums *s, float *part, size_t count);
void mpi_sums_poll(struct mpi_sums *s);
int mpi_sums_wait(struct mpi_sums *s, struct mlr_error *err);

#endif
