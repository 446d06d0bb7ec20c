#include "backend/lanes.h"

#include "backend/parallel.h"
#include "tensor/wide.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define LANES WIDE_LANES
#define PANEL (2 * LANES) /* outputs that are computed at once; their weights lie together */
#define ROWS  (LANES / 2) /* rows likewise */

/* Count the elements of a row, including the padding of channels. */
INLINE size_t inputs(const struct dense *g)
{
	return kernel_image_count(&g->x) / (size_t)g->x.n;
}

INLINE size_t panels(const struct dense *g)
{
	return (size_t)(g->outputs + PANEL - 1) / PANEL;
}

size_t dense_packed(const struct dense *g)
{
	return panels(g) * PANEL * inputs(g);
}

/* packed [panels][inputs][PANEL]; padding is zero. */
void dense_pack(const struct dense *g, const float *weights, float *packed)
{
	const struct kernel_image *x = &g->x;
	size_t pixels = (size_t)(x->h * x->w), b = (size_t)x->block;

	memset(packed, 0, dense_packed(g) * sizeof(float));
	for (size_t o = 0; o < (size_t)g->outputs; o++)
		for (size_t c = 0; c < (size_t)x->c; c++)
			for (size_t p = 0; p < pixels; p++) {
				size_t k = (c / b * pixels + p) * b + c % b;

				packed[(o / PANEL * inputs(g) + k) * PANEL + o % PANEL] =
					*weights++;
			}
}

struct call {
	const struct dense *g;
	const float *x, *packed, *bias;
	float *y;
	int rows, relu;
};

/*
 * Compute so many rows of one panel. Every sum goes over the inputs in order, however many rows
 * there are: an image's answer must not depend on the batch that it came in.
 */
INLINE void block(const struct call *c, size_t row, size_t panel, int rows)
{
	const struct dense *g = c->g;
	size_t n = inputs(g);
	const float *x = c->x + row * n, *w = c->packed + panel * n * PANEL;
	int from = (int)panel * PANEL;
	vecf sum[ROWS][2] = { { { 0 } } };

	for (size_t k = 0; k < n; k++, w += PANEL)
		for (int r = 0; r < rows; r++) {
			float f = x[(size_t)r * n + k];

			sum[r][0] += *(const vecf *)w * f;
			sum[r][1] += *(const vecf *)(w + LANES) * f;
		}
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < PANEL && from + i < g->outputs; i++) {
			float v = sum[r][i / LANES][i % LANES];

			v += c->bias ? c->bias[from + i] : 0;
			c->y[(row + (size_t)r) * (size_t)g->outputs + (size_t)(from + i)] =
				c->relu && v < 0 ? 0 : v;
		}
}

/* Divide blocks of rows of panels among the threads; a panel's weights stay in the cache. */
WIDE_FIXED static void forward_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t down = ((size_t)c->rows + ROWS - 1) / ROWS, n = down * panels(c->g);
	size_t to = parallel_from(n, 1, me + 1, of);

	for (size_t i = parallel_from(n, 1, me, of); i < to; i++) {
		size_t row = i % down * ROWS, end = row + ROWS;

		if (end <= (size_t)c->rows) {
			block(c, row, i / down, ROWS);
			continue;
		}
		for (end = (size_t)c->rows; row + 4 <= end; row += 4)
			block(c, row, i / down, 4);
		for (; row < end; row++)
			block(c, row, i / down, 1);
	}
}

void dense_forward(const struct dense *g, int rows, const float *x, const float *packed,
	const float *bias, int relu, float *y)
{
	struct call c = { g, x, packed, bias, y, rows, relu };

	if (rows <= ROWS && panels(g) == 1)
		forward_in_thread(&c, 0, 1);
	else
		parallel_run(forward_in_thread, &c);
}
