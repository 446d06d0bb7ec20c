/* How fast memory is copied by several threads at once. */
#ifndef MLT_BENCH_COPY_H
#define MLT_BENCH_COPY_H

#include "base/error.h"

/*
 * Time once how long threads take to copy 128 MiB together, each a part of its own (memcpy(3)).
 *
 *   ret   bytes a second, read and written ones counted
 *
 * Returns 0, -ENOMEM, -EAGAIN when there can't be so many threads.
 */
int copy_rate(int threads, double *ret, struct mlr_error *err);

#endif
