/*
 * Sums over ranks in a ring of TCP connections (Patarasuk and Yuan, "Bandwidth optimal all-reduce
 * algorithms for clusters of workstations", 2009). Each piece is cut into as many chunks as there
 * are ranks. A rank sends its own chunk, then each one that it has received and added to, one place
 * behind; in the second half of the way the chunks are sums and are only copied. What a rank sends
 * is thus what it receives, one chunk later, and it passes on bytes as soon as they are summed.
 *
 * Every chunk is summed once and copied from there, so all ranks have the same bits.
 */
#ifndef MLT_DIST_RING_SUMS_H
#define MLT_DIST_RING_SUMS_H

#include "base/base.h"

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

#endif
