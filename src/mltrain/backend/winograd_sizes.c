#include "backend/winograd.h"

/* Products read U once for each chunk: where that is large, so are chunks. */
static int chunk_of(int c, int k)
{
	int chunk = 16;

	while (chunk < 64 && c * k > chunk * chunk * 16)
		chunk *= 2;
	return chunk;
}

int winograd_fits(struct winograd *g, int n, int c, int k, int h, int w, int size, int stride,
	int pad, int threads)
{
	if ((size != 3 && size != 5) || stride != 1 || pad != size / 2 || c % 16 || k % 16)
		return 0;
	*g = (struct winograd){ .n = n,
		.c = c,
		.k = k,
		.h = h,
		.w = w,
		.size = size,
		.threads = threads,
		.tiles_down = (h + WINOGRAD_TILE - 1) / WINOGRAD_TILE,
		.tiles_across = (w + WINOGRAD_TILE - 1) / WINOGRAD_TILE,
		.chunk = chunk_of(c, k) };
	return 1;
}

size_t winograd_u(const struct winograd *g)
{
	size_t points =
		(size_t)(WINOGRAD_TILE + g->size - 1) * (size_t)(WINOGRAD_TILE + g->size - 1);

	return points * (size_t)g->c * (size_t)g->k;
}
