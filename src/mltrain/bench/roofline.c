#include "bench/roofline.h"

#include "bench/copy.h"

static int one_round(struct engine *e, int i, double *product, double *copy, struct mlr_error *err)
{
	struct engine_ceiling c = { 0 };
	int r = e->backend->ceiling ? e->backend->ceiling(e, &c, err) : 0;

	if (r < 0)
		return r;
	product[i] = c.flops_seconds > 0 ? c.flops / c.flops_seconds : 0;
	if (c.bytes > 0)
		copy[i] = c.bytes / c.bytes_seconds;
	else
		r = copy_rate(e->threads > 0 ? e->threads : 1, &copy[i], err);
	return r;
}

int roofline_measure(struct engine *e, struct roofline *ret, struct mlr_error *err)
{
	double product[ROUNDS], copy[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		int r = one_round(e, i, product, copy, err);

		if (r < 0)
			return r;
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
