/*
 * bench: the speed of engines on this machine, and the machine's ceilings. Measures; prints
 * nothing.
 *
 * This header: repeated measurements, since other work on a machine disturbs single ones.
 */
#ifndef MLT_BENCH_ROUNDS_H
#define MLT_BENCH_ROUNDS_H

#define ROUNDS 7 /* per measurement; odd, so that the median is a measured value */

struct spread {
	double median, min, max;
};

/* Sorts v [n], n > 0. */
struct spread rounds_spread(double *v, int n);

#endif
