/*
 * What this machine could do at most (Williams, Waterman and Patterson, "Roofline: An Insightful
 * Visual Performance Model", 2009), measured, not looked up.
 */
#ifndef MLT_BENCH_ROOFLINE_H
#define MLT_BENCH_ROOFLINE_H

#include "backend/backend.h"
#include "bench/rounds.h"

struct roofline {
	int has_product;       /* 0: the backend has no library that could be asked */
	struct spread product; /* operations a second of a large matrix product */
	struct spread copy;    /* bytes a second, read and written */
};

/*
 * Measure for an engine: its library's matrix product in its dtype; a copy in its memory, by its
 * threads where that is the host's. Returns 0, or what the backend's ceiling() gives.
 */
int roofline_measure(struct engine *e, struct roofline *ret, struct mlr_error *err);

enum roofline_bound { BOUND_NONE, BOUND_PRODUCT, BOUND_COPY };

/*
 * The least seconds that so many operations and bytes could take, and which of the two it is.
 * BOUND_NONE, and 0, where no product was measured.
 */
enum roofline_bound roofline_seconds(
	const struct roofline *r, double flops, double bytes, double *ret);

#endif
