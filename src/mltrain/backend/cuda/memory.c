#include "backend/cuda/engine.h"

#include "optimiser/optimiser.h"

#define SLOTS_MAX   64
#define SLOTS_BATCH 16384 /* images that a call brings at most, but for one batch */

/* An array that was asked for, and who wants to know where it lies. */
struct wish {
	void *at; /* of a pointer */
	size_t id;
};

struct arranging {
	struct cuda *c;
	struct wish *wishes;
	size_t n;
	int end; /* the last operation */
};

/*
 * Operations in the order of time: the gathering of images is 0, node i forward i + 1, the loss n +
 * 1, node i backward 2n + 1 - i, the update 2n + 2.
 */
static int forward_of(int node)
{
	return node + 1;
}

static int backward_of(const struct arranging *a, int node)
{
	return 2 * a->c->nodes.n + 1 - node;
}

static void want(struct arranging *a, void *at, const char *what, size_t bytes, int from, int to)
{
	a->wishes = xgrow(a->wishes, a->n, sizeof(*a->wishes));
	a->wishes[a->n++] = (struct wish){ at, plan_take(&a->c->plan, what, bytes, from, to) };
}

static void want_always(struct arranging *a, void *at, const char *what, size_t bytes)
{
	want(a, at, what, bytes, 0, a->end);
}

static void want_tensors(struct arranging *a)
{
	struct cuda *c = a->c;
	size_t batch = (size_t)c->engine.batch;

	for (int i = 0; i < c->nodes.tensors; i++) {
		const struct tensor_use *t = &c->nodes.tensor[i];
		size_t bytes = batch * t->count * (t->is_float ? 4 : kernel_size(c->dtype));
		int from = t->producer < 0 ? 0 : forward_of(t->producer);
		int to = t->last < 0 ? c->nodes.n + 1 : forward_of(t->last);

		if (c->trains)
			to = t->producer < 0 ? a->end : backward_of(a, t->producer);
		want(a, &c->tensor[i].y, "activations", bytes, from, to);
		if (!c->trains || !t->needs)
			continue;
		want(a, &c->tensor[i].dy, "gradients of them",
			batch * t->count * kernel_size(c->dtype),
			t->last < 0 ? c->nodes.n + 1 : backward_of(a, t->last),
			backward_of(a, t->producer));
	}
}

static void want_maximum(struct arranging *a, int i)
{
	struct cuda *c = a->c;
	const struct node *n = &c->nodes.node[i];
	const struct kernel_pool *w = &n->window;
	int last = c->trains ? backward_of(a, i) : forward_of(i);

	want(a, &c->node[i].winners, "winners of maxima", cuda_count(c, n->y), forward_of(i), last);
	if (n->pool)
		want(a, &c->node[i].full, "before maxima",
			(size_t)w->n * (size_t)w->h * (size_t)w->w * (size_t)w->c *
				kernel_size(c->dtype),
			forward_of(i), last);
}

/* Ask for what conv_weights() needs beside c->grad. */
static void want_conv(struct arranging *a, int i)
{
	struct cuda *c = a->c;
	const struct node *n = &c->nodes.node[i];
	struct kernel_norm shape = cuda_channels(c, n);
	int at = backward_of(a, i);

	if (!c->trains)
		return;
	if (c->dtype == DTYPE_BF16)
		want(a, &c->node[i].dw, "scratch", n->weights * kernel_size(c->dtype), at, at);
	if (n->biases)
		want(a, &c->node[i].partial, "scratch",
			(size_t)kernel_norm_splits(&shape) * 2 * n->biases * sizeof(double), at,
			at);
}

static void want_norm(struct arranging *a, int i)
{
	struct cuda *c = a->c;
	const struct node *n = &c->nodes.node[i];
	struct node_memory *m = &c->node[i];
	int channels = c->nodes.tensor[n->x].c, last = backward_of(a, i);
	struct kernel_norm shape = { .rows = (size_t)c->engine.batch * (size_t)n->pixels,
		.c = channels };
	size_t pair = 2 * (size_t)channels;

	if (!c->trains)
		return;
	want(a, &m->partial, "scratch", (size_t)kernel_norm_splits(&shape) * pair * sizeof(double),
		forward_of(i), last);
	want(a, &m->local, "statistics", pair * sizeof(double), forward_of(i), last);
	m->sums = NULL;
	if (c->ranks > 1)
		want(a, &m->sums, "statistics", pair * sizeof(double), forward_of(i), last);
	want(a, &m->saved, "statistics", pair * sizeof(float), forward_of(i), last);
}

static void want_nodes(struct arranging *a)
{
	struct cuda *c = a->c;

	for (int i = 0; i < c->nodes.n; i++) {
		const struct node *n = &c->nodes.node[i];
		size_t in = (size_t)c->engine.batch * c->nodes.tensor[n->x].count;

		if (n->kind == LAYER_CONV)
			want_conv(a, i);
		if (n->kind == LAYER_BATCHNORM)
			want_norm(a, i);
		if (n->kind == LAYER_MAXPOOL || n->pool)
			want_maximum(a, i);
		/* Whoever adds to another's gradient first makes his own; batch norm makes one even
		 * where nobody wants it. */
		if (c->trains && (c->nodes.tensor[n->x].readers > 1 || n->kind == LAYER_BATCHNORM))
			want(a, &c->node[i].temp, "scratch", in * kernel_size(c->dtype),
				backward_of(a, i), backward_of(a, i));
	}
}

static void want_upload(struct arranging *a)
{
	struct cuda *c = a->c;
	size_t rows = (size_t)c->slots * (size_t)c->engine.batch;

	c->upload_plain = PLAN_ALIGN + (size_t)c->slots * sizeof(struct kernel_step) +
		rows * (sizeof(uint32_t) + sizeof(uint16_t));
	c->upload_plain = (c->upload_plain + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
	c->upload_bytes = c->upload_plain + rows * sizeof(struct augment);
	want_always(a, &c->upload_there, "places and labels", c->upload_bytes);
	want_always(a, &c->result, "results", (size_t)c->slots * sizeof(*c->result));
}

static struct upload upload_at(const struct cuda *c, void *block)
{
	size_t rows = (size_t)c->slots * (size_t)c->engine.batch;
	char *p = block;
	struct upload u;

	u.now = block;
	p += PLAN_ALIGN;
	u.step = (struct kernel_step *)p;
	p += (size_t)c->slots * sizeof(struct kernel_step);
	u.index = (uint32_t *)p;
	p += rows * sizeof(uint32_t);
	u.labels = (uint16_t *)p;
	u.augment = (struct augment *)((char *)block + c->upload_plain);
	return u;
}

static void want_parameters(struct arranging *a)
{
	struct cuda *c = a->c;
	size_t bytes = (c->nodes.elements + 64) * sizeof(float);

	want_always(a, &c->param, "parameters", bytes);
	if (c->dtype == DTYPE_BF16)
		want_always(a, &c->copy, "parameters as bf16", bytes / 2);
	want_always(a, &c->state, "statistics", (c->states + 1) * sizeof(float));
	want_always(a, &c->tickets, "scratch", TICKETS * sizeof(uint32_t));
	want_always(a, &c->workspace, "libraries' workspace", WORKSPACE);
	if (!c->trains)
		return;
	want_always(a, &c->moment, "moments", bytes);
	if (c->optimiser != OPTIMISER_SGD)
		want_always(a, &c->square, "moments", bytes);
	if (c->exchange && c->exchange->lost)
		want_always(a, &c->before, "parameters before a step",
			bytes * (c->optimiser == OPTIMISER_SGD ? 2 : 3));
	want_always(a, &c->grad, "gradients of parameters", bytes);
	want_always(a, &c->parts, "scratch", (size_t)c->nodes.n * sizeof(struct kernel_part));
	want_always(a, &c->loss_partial, "scratch", 2 * KERNEL_LOSS_BLOCKS * sizeof(double));
	want_always(a, &c->update_partial, "scratch", 2 * KERNEL_UPDATE_BLOCKS * sizeof(double));
}

static int take_block(struct cuda *c, struct mlr_error *err)
{
	cudaError_t got = cudaMalloc(&c->block, c->plan.bytes);

	if (got == cudaErrorMemoryAllocation) {
		cudaGetLastError(); /* it would be every later call's answer */
		mlr_fail(err, ENOMEM, "backend cuda: %zu bytes of the GPU's memory, of %zu",
			c->plan.bytes, c->device.memory);
		return mlr_hint(err, "try a smaller --batch than %d", c->engine.batch);
	}
	TRY(CU(got));
	CU_TRY(cudaMemsetAsync(c->block, 0, c->plan.bytes, c->stream));
	return 0;
}

int cuda_memory_take(struct cuda *c, struct mlr_error *err)
{
	struct arranging a = { c, NULL, 0, 2 * c->nodes.n + 2 };
	size_t batch = (size_t)c->engine.batch;
	int r;

	c->slots = SLOTS_BATCH / c->engine.batch;
	c->slots = c->slots < 1 ? 1 : c->slots > SLOTS_MAX ? SLOTS_MAX : c->slots;
	if (!c->trains)
		c->slots = 1;
	c->tensor = xcalloc((size_t)c->nodes.tensors, sizeof(*c->tensor));
	c->node = xcalloc((size_t)c->nodes.n, sizeof(*c->node));
	want_parameters(&a);
	want_upload(&a);
	want_tensors(&a);
	want_nodes(&a);
	plan_place(&c->plan);
	r = take_block(c, err);
	for (size_t i = 0; i < a.n && r == 0; i++) {
		void *p = plan_at(&c->plan, c->block, a.wishes[i].id);

		memcpy(a.wishes[i].at, &p, sizeof(p));
	}
	free(a.wishes);
	if (r < 0)
		return r;
	c->engine.memory = c->plan.bytes;
	CU_TRY(cudaMallocHost(&c->upload_host, c->upload_bytes));
	CU_TRY(cudaMallocHost((void **)&c->result_host, (size_t)c->slots * sizeof(*c->result)));
	CU_TRY(cudaMallocHost(
		(void **)&c->logits_host, batch * (size_t)c->classes * sizeof(float)));
	memset(c->upload_host, 0, c->upload_bytes);
	c->host = upload_at(c, c->upload_host);
	c->there = upload_at(c, c->upload_there);
	return 0;
}

void cuda_memory_give(struct cuda *c)
{
	for (int i = 0; i < c->held_count; i++)
		cudaFree(c->held[i].device);
	cudaFree(c->staged);
	cudaFreeHost(c->staged_host);
	cudaFreeHost(c->upload_host);
	cudaFreeHost(c->result_host);
	cudaFreeHost(c->logits_host);
	cudaFree(c->block);
	plan_done(&c->plan);
	free(c->tensor);
	free(c->node);
}
