/*
 * Inside the plugin mltrain-mpi.so: sums of gradients over the ranks, begun as soon as parts of
 * them are final (backend/exchange.h: ready, poll, wait).
 *
 * Parts are collected into buckets, since a message costs microseconds before its first byte. The
 * buckets depend only on the parts' sizes, which are the same on all ranks, never on their
 * addresses.
 */
#ifndef MLT_DIST_MPI_SUMS_H
#define MLT_DIST_MPI_SUMS_H

#include "dist/mpi_ranks.h"

struct mpi_sums *mpi_sums_new(struct mpi_ranks *m);
void mpi_sums_free(struct mpi_sums **s);

/* Failures here are reported by wait. */
void mpi_sums_ready(struct mpi_sums *s, float *part, size_t count);
void mpi_sums_poll(struct mpi_sums *s);
int mpi_sums_wait(struct mpi_sums *s, struct mlr_error *err);

#endif
