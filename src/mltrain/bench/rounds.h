/*
 * bench: how fast engines are on this machine, and what the machine could do at most. Measures;
 * prints nothing.
 *
 * This header: what is measured several times, for machines are never quite to themselves.
 */
#ifndef MLT_BENCH_ROUNDS_H
#define MLT_BENCH_ROUNDS_H

#define ROUNDS 7 /* of every measurement; odd, so that the median is one that was measured */

struct spread {
	double median, min, max;
};

/* Sorts v [n], n > 0. */
struct spread rounds_spread(double *v, int n);

#endif
