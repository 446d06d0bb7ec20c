#include "data/loader.h"

#include "base/base.h"
#include "data/ring.h"

#include <assert.h>

struct loader {
	const struct image_set *set;
	struct ring *ring;       /* NULL: the set is in memory */
	const uint8_t **decoded; /* [ahead], the ring's batches */
	int rows, ahead;
	uint16_t *labels; /* [ahead][rows] */
	uint32_t *index;  /* [ahead][rows], for ranges */
	/* The arguments of loader_start(). */
	const uint32_t *order; /* NULL: a range */
	const struct augment *augment;
	size_t stride;
	uint32_t first;
	uint64_t images; /* in all batches of this rank */
	uint64_t taken;  /* batches handed out */
};

static int open_ring(struct loader *l, const struct dataset *of, const struct loader_options *o,
	struct mlr_error *err)
{
	const struct ring_options ring = { .dir = of->dir,
		.files = l->set->files,
		.size = { of->channels, of->height, of->width },
		.rows = o->rows,
		.ahead = o->ahead,
		.threads = o->threads };

	return ring_open(&ring, &l->ring, err);
}

int loader_open(const struct image_set *set, const struct dataset *of,
	const struct loader_options *o, struct loader **ret, struct mlr_error *err)
{
	size_t cells = (size_t)o->ahead * (size_t)o->rows;
	auto_call(loader_close) struct loader *l = calloc(1, sizeof(*l));

	assert(o->rows > 0 && o->ahead > 0 && o->threads > 0);
	if (l) {
		l->labels = calloc(cells, sizeof(*l->labels));
		l->index = calloc(cells, sizeof(*l->index));
		l->decoded = calloc((size_t)o->ahead, sizeof(*l->decoded));
	}
	if (!l || !l->labels || !l->index || !l->decoded)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for batches",
			cells * (sizeof(*l->labels) + sizeof(*l->index)));
	l->set = set;
	l->rows = o->rows;
	l->ahead = o->ahead;
	if (!set->images && set->files)
		TRY(open_ring(l, of, o, err));
	*ret = take_ptr(&l);
	return 0;
}

void loader_close(struct loader **l)
{
	if (!*l)
		return;
	ring_close(&(*l)->ring);
	free((*l)->decoded);
	free((*l)->labels);
	free((*l)->index);
	free(*l);
	*l = NULL;
}

void loader_start(struct loader *l, const uint32_t *order, const struct augment *augment,
	size_t stride, uint64_t n)
{
	l->order = order;
	l->augment = augment;
	l->stride = stride;
	l->images = n * (uint64_t)l->rows;
	l->taken = 0;
	if (l->ring)
		ring_start(l->ring, order, stride, 0, l->images);
}

void loader_start_range(struct loader *l, uint32_t first, uint32_t count)
{
	assert(first <= l->set->count && count <= l->set->count - first);
	l->order = NULL;
	l->augment = NULL;
	l->first = first;
	l->images = count;
	l->taken = 0;
	if (l->ring)
		ring_start(l->ring, NULL, 0, first, count);
}

/* Write batch number `at` into the cells of place k. */
static void fill(struct loader *l, int k, uint64_t at, struct batch *ret)
{
	uint64_t left = l->images - at * (uint64_t)l->rows;
	int rows = left < (uint64_t)l->rows ? (int)left : l->rows;
	uint16_t *labels = l->labels + (size_t)k * (size_t)l->rows;
	uint32_t *range = l->index + (size_t)k * (size_t)l->rows;
	const uint32_t *index = l->order ? l->order + at * l->stride : range;

	for (int i = 0; i < rows; i++) {
		if (!l->order)
			range[i] = l->first + (uint32_t)(at * (uint64_t)l->rows) + (uint32_t)i;
		assert(index[i] < l->set->count);
		labels[i] = l->set->labels[index[i]];
	}
	*ret = (struct batch){ .rows = rows,
		.images = l->set->images,
		.index = index,
		.augment = l->augment ? l->augment + at * l->stride : NULL,
		.labels = labels };
}

/* Take batches from the ring, whose images are in the batch's order. */
static int take_decoded(struct loader *l, int max, struct batch *ret, struct mlr_error *err)
{
	int n = ring_take(l->ring, max, l->decoded, err);

	for (int k = 0; k < n; k++) {
		fill(l, k, l->taken++, &ret[k]);
		ret[k].images = l->decoded[k];
		ret[k].index = NULL;
	}
	return n;
}

int loader_take(struct loader *l, int max, struct batch *ret, struct mlr_error *err)
{
	int n = 0;

	assert(max > 0 && max <= l->ahead);
	if (l->ring)
		return take_decoded(l, max, ret, err);
	for (; n < max && l->taken * (uint64_t)l->rows < l->images; n++)
		fill(l, n, l->taken++, &ret[n]);
	return n;
}
