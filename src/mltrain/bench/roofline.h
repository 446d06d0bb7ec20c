/*
 * bench: the speed of engines on this machine, and the machine's ceilings. Measures; prints
 * nothing.
 *
 * This header: the machine's ceilings (Williams, Waterman and Patterson, "Roofline: An Insightful
 * Visual Performance Model", 2009), measured, not looked up.
 */
#ifndef MLT_BENCH_ROOFLINE_H
#define MLT_BENCH_ROOFLINE_H

#include "backend/backend.h"

/* Rounds of a measurement, since other work disturbs single ones; odd, so that the median is a
 * measured value. */
#define ROUNDS 7

struct spread {
	double median, min, max;
};

/* Sort v [n], n > 0, and return its spread. */
struct spread roofline_spread(double *v, int n);

struct roofline {
	int has_product;       /* 0: the backend has no library to measure */
	struct spread product; /* operations a second of a large matrix product */
	struct spread copy;    /* bytes a second, read and written */
};

/*
 * Measure an engine's ceilings: its library's matrix product in its dtype, and a copy in its
 * memory, by its threads if that is the host's. Returns 0, or the error of the backend's ceiling().
 */
int roofline_measure(struct engine *e, struct roofline *ret, struct mlr_error *err);

enum roofline_bound { BOUND_NONE, BOUND_PRODUCT, BOUND_COPY };

/*
 * The fewest seconds that these operations and bytes could take, and which of the two is the bound.
 * BOUND_NONE, and 0, if no product was measured.
 */
enum roofline_bound roofline_seconds(
	const struct roofline *r, double flops, double bytes, double *ret);

#endif
