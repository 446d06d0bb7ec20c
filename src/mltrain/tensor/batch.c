#include "tensor/batch.h"

#include <string.h>

static void gather_altered(const uint8_t *from, int h, int w, const struct augment *a,
	const float table[256], float *to)
{
	for (int i = 0; i < h; i++)
		for (int j = 0; j < w; j++) {
			int y = i - a->down, x = j - a->right;
			int in = y >= 0 && y < h && x >= 0 && x < w;

			if (in && a->flip)
				x = w - 1 - x;
			to[i * w + j] = table[in ? from[y * w + x] : 0];
			if (i >= a->cut_y && i < a->cut_y + a->cut && j >= a->cut_x &&
				j < a->cut_x + a->cut)
				to[i * w + j] = 0;
		}
}

void batch_gather(const struct batch *b, int c, int h, int w, const struct image_norm *norm,
	int from, int to, float *x)
{
	static const struct augment none;
	size_t plane = (size_t)h * (size_t)w;
	float table[256];

	for (int k = 0; k < c; k++) {
		for (int v = 0; v < 256; v++)
			table[v] = ((float)v - norm->mean[k]) / norm->scale[k];
		for (int i = from; i < to; i++) {
			size_t which = b->index ? b->index[i] : (size_t)i;
			const uint8_t *image = b->images + (which * (size_t)c + (size_t)k) * plane;
			const struct augment *a = b->augment ? &b->augment[i] : &none;
			float *y = x + ((size_t)i * (size_t)c + (size_t)k) * plane;

			if (memcmp(a, &none, sizeof(none)) != 0)
				gather_altered(image, h, w, a, table, y);
			else
				for (size_t p = 0; p < plane; p++)
					y[p] = table[image[p]];
		}
	}
}
