/* The speed at which several threads copy memory together. */
#ifndef MLT_BENCH_COPY_H
#define MLT_BENCH_COPY_H

#include "base/error.h"

/*
 * Time a copy of 128 MiB by threads, each copying its own part (memcpy(3)), n times.
 *
 *   ret   [n] bytes per second, read plus written
 *
 * Returns 0, -ENOMEM, or -EAGAIN if so many threads can't be started.
 */
int copy_rate(int threads, int n, double *ret, struct mlr_error *err);

#endif
