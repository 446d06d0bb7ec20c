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

/* Begin to sum x [n]; the caller leaves the memory alone until everything is done. */
void ring_sums_add(struct ring_sums *r, float *x, size_t n);

/* Make progress without waiting. Returns 1 when everything added is summed, else 0; -ECONNRESET and
 * kin if a neighbour is gone. */
int ring_sums_advance(struct ring_sums *r, struct mlr_error *err);

/* Wait until there may be progress, so many milliseconds at most. */
void ring_sums_sleep(const struct ring_sums *r, int ms);

#endif
