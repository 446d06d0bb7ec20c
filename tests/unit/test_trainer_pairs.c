/* Products in bfloat16 by AVX512_BF16 (pairs.h), and what they do to a convolution (winograd.h). */
#include "trainer_test.h"

#include "backend/dnn.h"
#include "backend/lanes.h"
#include "backend/pairs.h"
#include "backend/parallel.h"

/* Small whole numbers and their sums are exact in bf16 and in f32. */
static void fill_whole(float *to, int n, int step)
{
	for (int i = 0; i < n; i++)
		to[i] = (float)(i * step % 23 - 11);
}

static void products_of_pairs_are_those_of_plain_loops(void **state)
{
	enum { M = 16, K = 26, N = 48, ODD = K + 1 };
	float a[M * ODD + 48] = { 0 }, at[ODD * M], b[ODD * N], c[M * N], want[M * N];
	uint32_t ap[M * ODD], bp[(ODD + 1) / 2 * N];

	fill_whole(b, ODD * N, 7);
	for (int odd = 0; odd < 2; odd++) {
		int k = K + odd;
		struct pairs_product p = { ap, bp, c, 0, 0, M, N, (k + 1) / 2 };

		fill_whole(a, M * k, 5);
		fill_whole(c, M * N, 3);
		memcpy(want, c, sizeof(want));
		for (int i = 0; i < M; i++)
			for (int l = 0; l < k; l++) {
				at[l * M + i] = a[i * k + l];
				for (int j = 0; j < N; j++)
					want[i * N + j] += a[i * k + l] * b[l * N + j];
			}
		pairs_of_rows(b, k, N, bp);
		if (odd) { /* A by its columns, as V' is */
			pairs_of_rows(at, k, M, ap);
			p.across = 1;
			p.down = M;
		} else {
			pairs_of_columns(a, M * K, ap);
			p.across = K / 2;
			p.down = 1;
		}
		pairs_product(&p, 1);
		assert_memory_equal(c, want, sizeof(want));
		pairs_product(&p, 0);
		pairs_product(&p, 1);
		for (int i = 0; i < M * N; i++)
			assert_true(c[i] == 2 * (want[i] - (float)(i * 3 % 23 - 11)));
	}
}

/* What one call of winograd.h forward and one back make, with products in bf16 or not. */
struct winograd_run {
	float *y, *dw, *dx;
};

static void run_winograd(const struct winograd *g, int in_pairs, struct winograd_run *r)
{
	const struct lanes *l = lanes_find();
	size_t u = winograd_u(g), x = (size_t)(g->n * g->c * g->h * g->w);
	size_t y = x / (size_t)g->c * (size_t)g->k, w = (size_t)(25 * g->c * g->k);
	auto_free float *points = xcalloc(2 * u, sizeof(float));
	auto_free uint32_t *pairs = xcalloc(u, sizeof(*pairs));
	auto_free float *in = random_floats(1, x), *weights = random_floats(2, w);
	auto_free float *dy = random_floats(3, y), *db = xcalloc((size_t)g->k, sizeof(*db));
	auto_free float *work = xcalloc(l->winograd_work(g, 1), sizeof(float));

	r->y = xcalloc(y, sizeof(float));
	r->dw = xcalloc(w, sizeof(float));
	r->dx = xcalloc(x, sizeof(float));
	l->winograd_weights(g, weights, points, points + u);
	if (in_pairs)
		l->winograd_pairs(g, points, points + u, pairs, pairs + u / 2);
	l->winograd_forward(
		g, g->n, in, points, in_pairs ? pairs : NULL, NULL, 0, r->y, NULL, work);
	l->winograd_backward(g, in, NULL, dy, NULL, points + u, in_pairs ? pairs + u / 2 : NULL,
		r->dw, db, r->dx, work);
}

static void run_done(struct winograd_run *r)
{
	free(r->y);
	free(r->dw);
	free(r->dx);
}

/* The last tiles of a thread are an odd number. */
static void winograd_in_pairs_differs_by_rounding(void **state)
{
	struct winograd g;
	struct winograd_run whole, half;

	parallel_init(2);
	assert_true(winograd_fits(&g, 3, 16, 48, 9, 9, 5, 1, 2, 2));
	run_winograd(&g, 0, &whole);
	run_winograd(&g, 1, &half);
	assert_true(distance(half.y, whole.y, 3 * 48 * 81) < 0.06);
	assert_true(distance(half.y, whole.y, 3 * 48 * 81) > 1e-3);
	assert_true(distance(half.dx, whole.dx, 3 * 16 * 81) < 0.06);
	assert_true(distance(half.dw, whole.dw, 25 * 16 * 48) < 0.06);
	run_done(&whole);
	run_done(&half);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_of_pairs_are_those_of_plain_loops),
		cmocka_unit_test(winograd_in_pairs_differs_by_rounding),
	};

	if (!dnn_has_bf16()) {
		puts("1..0 # SKIP this processor has no AVX512_BF16");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
