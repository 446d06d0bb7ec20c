#include "backend/cuda/engine.h"

#include "optimiser/optimiser.h"

#define STAGED_MAX ((size_t)256 << 20) /* bytes of batches that are staged at once, but for one */

int cuda_hold(struct cuda *c, const uint8_t *images, size_t count, struct mlr_error *err)
{
	size_t bytes = count * c->pixels;
	uint8_t *device = NULL;
	cudaError_t got;

	for (int i = 0; i < c->held_count; i++)
		if (c->held[i].host == images && c->held[i].count >= count)
			return 0;
	if (c->held_count == HELD_MAX || count == 0 || count > UINT32_MAX)
		return 0;
	got = cudaMalloc((void **)&device, bytes);
	if (got == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		mlr_debug("cuda: %zu bytes of images stay in the host's memory", bytes);
		return 0;
	}
	TRY(CU(got));
	c->held[c->held_count++] = (struct held){ images, device, count };
	c->engine.memory += bytes;
	CU_TRY(cudaMemcpyAsync(device, images, bytes, cudaMemcpyHostToDevice, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream));
	return 0;
}

/* Which images are those that lie on the device, and which of them is a batch's first? -1: none. */
static int held_of(const struct cuda *c, const struct batch *b, size_t *first)
{
	for (int i = 0; i < c->held_count; i++) {
		const struct held *h = &c->held[i];
		size_t at;

		if (b->images < h->host || b->images >= h->host + h->count * c->pixels)
			continue;
		at = (size_t)(b->images - h->host);
		if (at % c->pixels)
			continue;
		*first = at / c->pixels;
		return i;
	}
	return -1;
}

/* Room for the batches of a call that lie elsewhere. */
static int need_staging(struct cuda *c, struct mlr_error *err)
{
	size_t batch = (size_t)c->engine.batch * c->pixels, slots = STAGED_MAX / batch;

	if (c->staged)
		return 0;
	slots = slots < 1 ? 1 : slots;
	slots = slots > (size_t)c->slots ? (size_t)c->slots : slots;
	CU_TRY(cudaMallocHost((void **)&c->staged_host, slots * batch));
	CU_TRY(cudaMalloc((void **)&c->staged, slots * batch));
	c->staged_slots = (int)slots;
	c->engine.memory += slots * batch;
	return 0;
}

static void stage(struct cuda *c, const struct batch *b, int slot)
{
	size_t at = (size_t)slot * (size_t)c->engine.batch;
	uint8_t *to = c->staged_host + at * c->pixels;

	if (!b->index) {
		memcpy(to, b->images, (size_t)b->rows * c->pixels);
		return;
	}
	for (int i = 0; i < b->rows; i++)
		memcpy(to + (size_t)i * c->pixels, b->images + (size_t)b->index[i] * c->pixels,
			c->pixels);
}

/* Where rows beyond a batch that is not full are computed with its first image. */
static void place(struct cuda *c, const struct batch *b, int slot, size_t first, int staged)
{
	size_t at = (size_t)slot * (size_t)c->engine.batch;

	for (int i = 0; i < c->engine.batch; i++) {
		int row = i < b->rows ? i : 0;

		c->host.index[at + (size_t)i] =
			(uint32_t)(staged ? at + (size_t)row
					  : first + (b->index ? b->index[row] : (uint32_t)row));
	}
}

static void place_labels(struct cuda *c, const struct batch *b, int slot, int altered)
{
	size_t at = (size_t)slot * (size_t)c->engine.batch;

	if (b->labels)
		memcpy(c->host.labels + at, b->labels, (size_t)b->rows * sizeof(*b->labels));
	if (!altered)
		return;
	memset(c->host.augment + at, 0, (size_t)c->engine.batch * sizeof(struct augment));
	if (b->augment)
		memcpy(c->host.augment + at, b->augment, (size_t)b->rows * sizeof(*b->augment));
}

static void place_step(struct cuda *c, const struct step *s, int slot)
{
	struct adam_factors f = adam_factors(s->lr, s->momentum, s->number);

	c->host.step[slot] = (struct kernel_step){ .lr = s->lr,
		.momentum = s->momentum,
		.l2 = s->l2,
		.beta2 = ADAM_BETA2,
		.rate = f.rate,
		.epsilon = f.epsilon,
		.seed = s->seed,
		.number = s->number };
}

static int check(const struct cuda *c, const struct batch *b, int trained, struct mlr_error *err)
{
	if (b->rows < 1 || b->rows > c->engine.batch || (trained && b->rows != c->engine.batch))
		return mlr_fail(err, EINVAL, "backend cuda: a batch of %d for an engine of %d",
			b->rows, c->engine.batch);
	for (int i = 0; trained && i < b->rows; i++)
		if (b->labels[i] >= c->classes)
			return mlr_fail(err, EINVAL, "backend cuda: label %u of %d classes",
				b->labels[i], c->classes);
	return 0;
}

int cuda_upload(struct cuda *c, const struct batch *batches, const struct step *steps, int n,
	const uint8_t **images, int *altered, struct mlr_error *err)
{
	size_t first = 0, batch = (size_t)c->engine.batch;
	int held = held_of(c, &batches[0], &first), most = c->slots, count = 0;

	if (held < 0) {
		TRY(need_staging(c, err));
		most = c->staged_slots;
	}
	*altered = 0;
	for (int i = 0; i < n && i < most; i++)
		*altered |= batches[i].augment != NULL;
	for (; count < n && count < most; count++) {
		const struct batch *b = &batches[count];

		TRY(check(c, b, steps != NULL, err));
		if (held_of(c, b, &first) != held)
			break; /* the next call's */
		if (held < 0)
			stage(c, b, count);
		place(c, b, count, first, held < 0);
		place_labels(c, b, count, *altered);
		if (steps)
			place_step(c, &steps[count], count);
	}
	*images = held < 0 ? c->staged : c->held[held].device;
	if (held < 0)
		CU_TRY(cudaMemcpyAsync(c->staged, c->staged_host, (size_t)count * batch * c->pixels,
			cudaMemcpyHostToDevice, c->stream));
	CU_TRY(cudaMemcpyAsync(c->upload_there, c->upload_host,
		*altered ? c->upload_bytes : c->upload_plain, cudaMemcpyHostToDevice, c->stream));
	return count;
}
