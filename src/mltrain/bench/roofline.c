#include "bench/roofline.h"

#include "bench/copy.h"

int roofline_measure(struct engine *e, struct roofline *ret, struct mlr_error *err)
{
	struct engine_ceiling c[ROUNDS] = { { 0 } };
	double product[ROUNDS], copy[ROUNDS];
	int r = e->backend->ceiling ? e->backend->ceiling(e, ROUNDS, c, err) : 0;

	if (r == 0 && c[0].bytes == 0)
		r = copy_rate(e->threads > 0 ? e->threads : 1, ROUNDS, copy, err);
	if (r < 0)
		return r;
	for (int i = 0; i < ROUNDS; i++) {
		product[i] = c[i].flops_seconds > 0 ? c[i].flops / c[i].flops_seconds : 0;
		if (c[i].bytes > 0)
			copy[i] = c[i].bytes / c[i].bytes_seconds;
	}
	*ret = (struct roofline){ e->backend->ceiling != NULL, rounds_spread(product, ROUNDS),
		rounds_spread(copy, ROUNDS) };
	return 0;
}

enum roofline_bound roofline_seconds(
	const struct roofline *r, double flops, double bytes, double *ret)
{
	double product, copy;

	*ret = 0;
	if (!r->has_product)
		return BOUND_NONE;
	product = flops / r->product.median;
	copy = bytes / r->copy.median;
	*ret = product > copy ? product : copy;
	return product > copy ? BOUND_PRODUCT : BOUND_COPY;
}
