#include "backend/cuda/engine.h"

/* How a node's weights are turned: [k][c][s] is [k][s][c] on the device. */
struct turn {
	size_t k, c, s;
};

static struct turn turn_of(const struct node *n)
{
	const struct layer *l = n->layer;
	size_t c = (size_t)l->in.dim[0];

	if (l->kind == LAYER_BATCHNORM)
		return (struct turn){ 1, n->weights, 1 };
	if (l->kind == LAYER_CONV)
		return (struct turn){ (size_t)l->outputs, c, (size_t)l->size * (size_t)l->size };
	return (struct turn){ (size_t)l->outputs, c, shape_count(&l->in) / c };
}

/* Copy a block between the canonical order and the device's. */
static void turn_all(const struct cuda *c, const float *from, float *to, int to_device)
{
	for (int i = 0; i < c->nodes.n; i++) {
		const struct node *n = &c->nodes.node[i];
		size_t bias = n->at + n->bias_at, bias_at = n->layer->bias_at;
		struct turn t;

		if (!n->weights)
			continue;
		t = turn_of(n);
		for (size_t k = 0; k < t.k; k++)
			for (size_t ch = 0; ch < t.c; ch++)
				for (size_t s = 0; s < t.s; s++) {
					size_t here =
						n->layer->weight_at + (k * t.c + ch) * t.s + s;
					size_t there = n->at + (k * t.s + s) * t.c + ch;

					to[to_device ? there : here] =
						from[to_device ? here : there];
				}
		memcpy(to + (to_device ? bias : bias_at), from + (to_device ? bias_at : bias),
			n->biases * sizeof(float));
	}
}

/* Copy bytes to or from the device, and wait. */
static int copy(struct cuda *c, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
	struct mlr_error *err)
{
	CU_TRY(cudaMemcpyAsync(to, from, bytes, kind, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream));
	return 0;
}

/* The device's block; NULL when this engine has none. */
static float *block_of(const struct cuda *c, enum engine_block which)
{
	switch ((int)which) {
	case ENGINE_PARAMS:
		return c->param;
	case ENGINE_OPTIMISER:
		return c->moment;
	case ENGINE_OPTIMISER + 1:
		return c->square;
	case ENGINE_GRADS:
		return c->grad;
	case ENGINE_STATES:
		return c->state;
	}
	return NULL;
}

int cuda_params_keep(struct cuda *c, enum keep which, struct mlr_error *err)
{
	float *const block[] = { c->param, c->moment, c->square };
	size_t n = c->nodes.elements;

	for (size_t i = 0; c->before && i < ARRAY_LEN(block) && block[i]; i++) {
		float *kept = c->before + i * n;

		CU_TRY(cudaMemcpyAsync(which == PUT_BACK ? block[i] : kept,
			which == PUT_BACK ? kept : block[i], n * sizeof(float),
			cudaMemcpyDeviceToDevice, c->stream));
	}
	return 0;
}

static int refuse(enum engine_block which, struct mlr_error *err)
{
	return mlr_fail(err, ENOTSUP, "backend cuda: an engine that predicts has no %s",
		which == ENGINE_GRADS ? "gradients" : "moments");
}

int cuda_params_get(struct cuda *c, enum engine_block which, float *to, struct mlr_error *err)
{
	const float *block = block_of(c, which);
	auto_free float *turned = NULL;
	size_t bytes = c->nodes.elements * sizeof(float);

	if (!block)
		return refuse(which, err);
	if (which == ENGINE_STATES)
		return copy(c, to, block, c->states * sizeof(float), cudaMemcpyDeviceToHost, err);
	turned = malloc(bytes + 1);
	if (!turned)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for parameters", bytes);
	TRY(copy(c, turned, block, bytes, cudaMemcpyDeviceToHost, err));
	turn_all(c, turned, to, 0);
	return 0;
}

int cuda_params_set(
	struct cuda *c, enum engine_block which, const float *from, struct mlr_error *err)
{
	float *block = which == ENGINE_GRADS ? NULL : block_of(c, which);
	auto_free float *turned = NULL;
	size_t bytes = c->nodes.elements * sizeof(float);

	if (!block)
		return refuse(which, err);
	if (which == ENGINE_STATES)
		return copy(c, block, from, c->states * sizeof(float), cudaMemcpyHostToDevice, err);
	turned = calloc(c->nodes.elements + 1, sizeof(float));
	if (!turned)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for parameters", bytes);
	turn_all(c, from, turned, 1);
	CU_TRY(cudaMemcpyAsync(block, turned, bytes, cudaMemcpyHostToDevice, c->stream));
	if (which == ENGINE_PARAMS && c->copy)
		CU_TRY(kernel_from_float(
			c->nodes.elements, c->dtype, c->param, c->copy, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream));
	return 0;
}
