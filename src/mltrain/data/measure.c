/* Measures the distribution of a data set's bytes. */
#include "data/dataset.h"

#include "base/base.h"
#include "data/loader.h"

#include <math.h>

#define ROWS  64
#define AHEAD 4

/* Counts of each byte value in each channel, which give exact sums. */
typedef uint64_t histogram[IMAGE_CHANNELS_MAX][256];

static void count_batch(const struct batch *b, uint32_t channels, size_t plane, histogram seen)
{
	for (int i = 0; i < b->rows; i++) {
		size_t which = b->index ? b->index[i] : (size_t)i;

		for (uint32_t c = 0; c < channels; c++) {
			const uint8_t *p = b->images + (which * channels + c) * plane;

			for (size_t k = 0; k < plane; k++)
				seen[c][p[k]]++;
		}
	}
}

static void moments(const uint64_t seen[256], float *mean, float *deviation)
{
	double n = 0, sum = 0, squares = 0, m;

	for (int v = 0; v < 256; v++) {
		n += (double)seen[v];
		sum += (double)seen[v] * v;
	}
	m = sum / n;
	for (int v = 0; v < 256; v++)
		squares += (double)seen[v] * (v - m) * (v - m);
	*mean = (float)m;
	*deviation = squares > 0 ? (float)sqrt(squares / n) : 1;
}

int dataset_measure(const struct dataset *d, uint32_t first, int threads, struct image_norm *ret,
	struct mlr_error *err)
{
	const struct loader_options o = { ROWS, AHEAD, threads > 0 ? threads : 1 };
	auto_call(loader_close) struct loader *l = NULL;
	struct image_norm norm = d->norm;
	histogram seen = { { 0 } };
	struct batch b[AHEAD];
	int r;

	if (first >= d->train.count)
		return mlr_fail(err, EINVAL, "'%s' has no training images to measure", d->dir);
	TRY(loader_open(&d->train, d, &o, &l, err));
	loader_start_range(l, first, d->train.count - first);
	while ((r = loader_take(l, AHEAD, b, err)) > 0)
		for (int i = 0; i < r; i++)
			count_batch(&b[i], d->channels, (size_t)d->height * d->width, seen);
	if (r < 0)
		return r;
	for (uint32_t c = 0; c < d->channels; c++)
		moments(seen[c], &norm.mean[c], &norm.scale[c]);
	*ret = norm;
	return 0;
}
