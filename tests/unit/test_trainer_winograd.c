/* Convolutions by winograd.h against plain loops, and products in bfloat16 (pairs.c). */
#include "trainer_test.h"

#include "backend/dnn.h"
#include "backend/lanes.h"
#include "backend/winograd.h"
#include "backend/parallel.h"

static int can_pair(void)
{
	if (!dnn_has_bf16())
		print_message("# not tested here: this CPU has no AVX512_BF16\n");
	return dnn_has_bf16();
}

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

	if (!can_pair())
		return;
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

/* What winograd.h computes: y, and the gradients of w, the bias and x from dy. */
struct results {
	float *y, *dw, *db, *dx;
	size_t ny, nw, nx;
};

static void results_init(struct results *r, const struct winograd *g)
{
	r->nx = (size_t)(g->n * g->c * g->h * g->w);
	r->ny = (size_t)(g->n * g->k * g->h * g->w);
	r->nw = (size_t)(g->size * g->size * g->c * g->k);
	r->y = xcalloc(r->ny, sizeof(float));
	r->dw = xcalloc(r->nw, sizeof(float));
	r->db = xcalloc((size_t)g->k, sizeof(float));
	r->dx = xcalloc(r->nx, sizeof(float));
}

static void results_done(struct results *r)
{
	free(r->y);
	free(r->dw);
	free(r->db);
	free(r->dx);
}

/* An element of [n][channels/16][h][w][16]. */
static size_t at(const struct winograd *g, int channels, int n, int c, int i, int j)
{
	return (size_t)((((n * (channels / 16) + c / 16) * g->h + i) * g->w + j) * 16 + c % 16);
}

/* One pixel's and one tap's part of everything. */
static void plain_tap(const float *x, const float *w, const float *dy, size_t in, size_t out,
	size_t tap, struct results *r)
{
	r->y[out] += w[tap] * x[in];
	r->dw[tap] += dy[out] * x[in];
	r->dx[in] += dy[out] * w[tap];
}

static void plain_pixel(const struct winograd *g, const float *x, const float *w, const float *dy,
	int n, int i, int j, struct results *r)
{
	for (int k = 0; k < g->k; k++) {
		size_t out = at(g, g->k, n, k, i, j);

		r->db[k] += dy[out];
		for (int t = 0; t < g->size * g->size; t++) {
			int y = i + t / g->size - g->size / 2, z = j + t % g->size - g->size / 2;

			for (int c = 0; y >= 0 && y < g->h && z >= 0 && z < g->w && c < g->c; c++)
				plain_tap(x, w, dy, at(g, g->c, n, c, y, z), out,
					(size_t)((t * g->c + c) * g->k + k), r);
		}
	}
}

/* The same by code compiled for one width of vectors, in bfloat16 or not. */
static void by_code(const struct winograd_code *code, const struct winograd *g, int in_pairs,
	const float *x, const float *w, const float *dy, struct results *r)
{
	size_t n = winograd_u(g);
	auto_free float *u = xcalloc(2 * n, sizeof(float));
	auto_free uint32_t *pairs = xcalloc(n, sizeof(*pairs));
	auto_free float *work = xcalloc(code->work(g, 1), sizeof(float));

	code->weights(g, w, u, u + n);
	if (in_pairs)
		code->pairs(g, u, u + n, pairs, pairs + n / 2);
	code->forward(g, g->n, x, u, in_pairs ? pairs : NULL, NULL, 0, r->y, NULL, work);
	code->backward(g, x, NULL, dy, NULL, u + n, in_pairs ? pairs + n / 2 : NULL, r->dw, r->db,
		r->dx, work);
}

static void compare(const struct winograd_code *code, int size, int in_pairs, double close)
{
	struct winograd g;
	struct results want, got;
	auto_free float *x = NULL, *w = NULL, *dy = NULL;

	/* Tiles that the image does not fill; the last of a thread are an odd number. */
	assert_true(winograd_fits(&g, 3, 16, 48, 9, 9, size, 1, size / 2, 2));
	results_init(&want, &g);
	results_init(&got, &g);
	x = random_floats(1, want.nx);
	w = random_floats(2, want.nw);
	dy = random_floats(3, want.ny);
	for (int p = 0; p < g.n * g.h * g.w; p++)
		plain_pixel(&g, x, w, dy, p / (g.h * g.w), p / g.w % g.h, p % g.w, &want);
	by_code(code, &g, in_pairs, x, w, dy, &got);
	assert_true(distance(got.y, want.y, want.ny) < close);
	assert_true(distance(got.dw, want.dw, want.nw) < close);
	assert_true(distance(got.db, want.db, (size_t)g.k) < 1e-4);
	assert_true(distance(got.dx, want.dx, want.nx) < close);
	/* Or the products were not in bfloat16. */
	assert_true(!in_pairs || distance(got.y, want.y, want.ny) > 1e-3);
	results_done(&want);
	results_done(&got);
}

static void winograd_is_the_convolution(void **state)
{
	static const struct lanes *const lanes[] = { &lanes_8, &lanes_16 };

	parallel_init(2);
	for (size_t i = 0; i < ARRAY_LEN(lanes); i++) {
		if (!lanes_find() || (lanes[i] == &lanes_16 && lanes_find() != &lanes_16)) {
			print_message("# not tested here: vectors of %d floats\n", i ? 16 : 8);
			continue;
		}
		compare(lanes[i]->winograd_3, 3, 0, 1e-5);
		compare(lanes[i]->winograd_5, 5, 0, 1e-4);
	}
}

static void winograd_in_pairs_differs_by_rounding(void **state)
{
	parallel_init(2);
	if (!can_pair())
		return;
	compare(lanes_16.winograd_3, 3, 1, 0.03);
	compare(lanes_16.winograd_5, 5, 1, 0.06);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_of_pairs_are_those_of_plain_loops),
		cmocka_unit_test(winograd_is_the_convolution),
		cmocka_unit_test(winograd_in_pairs_differs_by_rounding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
