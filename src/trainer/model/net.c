#include "trainer/model/net.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "trainer/tensor/rng.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ceilings that keep every product of a few of them within size_t, and what users type within
 * reason. */
#define SIZE_LIMIT   65536 /* of any one dimension */
#define KERNEL_LIMIT 255
#define COUNT_LIMIT \
	((size_t)1 << 30) /* elements of one activation of one image, or of one weight */

static int bad(const struct layer *l, size_t i, struct mlr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int bad(const struct layer *l, size_t i, struct mlr_error *err, const char *fmt, ...)
{
	auto_free char *words = NULL;
	va_list ap;

	va_start(ap, fmt);
	words = xvasprintf(fmt, ap);
	va_end(ap);
	return mlr_fail(err, EINVAL, "layer %zu '%s': %s", i + 1, l->name, words);
}

static int check_name(const struct layer *layers, size_t i, struct mlr_error *err)
{
	const struct layer *l = &layers[i];

	if (!l->name[0] || strnlen(l->name, sizeof(l->name)) == sizeof(l->name))
		return mlr_fail(err, EINVAL, "layer %zu needs a name of 1 to %zu letters", i + 1,
			sizeof(l->name) - 1);
	for (size_t j = 0; j < i; j++)
		if (strcmp(layers[j].name, l->name) == 0)
			return bad(l, i, err, "the name is that of layer %zu too", j + 1);
	return 0;
}

static int infer_conv(struct layer *l, size_t i, struct mlr_error *err)
{
	char text[SHAPE_TEXT_MAX];

	if (l->in.rank != 3)
		return bad(l, i, err, "a convolution needs an image, but its input is a row of %d",
			l->in.dim[0]);
	if (l->outputs < 1 || l->outputs > SIZE_LIMIT)
		return bad(l, i, err, "%d filters; 1 to %d are possible", l->outputs, SIZE_LIMIT);
	if (l->size < 1 || l->size > KERNEL_LIMIT)
		return bad(
			l, i, err, "kernel size %d; 1 to %d are possible", l->size, KERNEL_LIMIT);
	if (l->stride < 1 || l->stride > l->size)
		return bad(l, i, err, "stride %d; 1 to the kernel's size, %d, are possible",
			l->stride, l->size);
	if (l->pad < 0 || l->pad >= l->size)
		return bad(l, i, err, "padding %d; 0 to %d are possible", l->pad, l->size - 1);
	if (l->in.dim[1] + 2 * l->pad < l->size || l->in.dim[2] + 2 * l->pad < l->size)
		return bad(l, i, err, "kernel size %d is larger than its input %s with padding %d",
			l->size, shape_text(&l->in, text), l->pad);
	l->out = shape3(l->outputs, (l->in.dim[1] + 2 * l->pad - l->size) / l->stride + 1,
		(l->in.dim[2] + 2 * l->pad - l->size) / l->stride + 1);
	return 0;
}

static int infer_pool(struct layer *l, size_t i, struct mlr_error *err)
{
	char text[SHAPE_TEXT_MAX];

	if (l->in.rank != 3)
		return bad(l, i, err, "max-pooling needs an image, but its input is a row of %d",
			l->in.dim[0]);
	if (l->size < 1 || l->size > 15) /* a winner's place in its window is kept in a byte */
		return bad(l, i, err, "window size %d; 1 to 15 are possible", l->size);
	if (l->in.dim[1] < l->size || l->in.dim[2] < l->size)
		return bad(l, i, err, "window size %d is larger than its input %s", l->size,
			shape_text(&l->in, text));
	l->out = shape3(l->in.dim[0], l->in.dim[1] / l->size, l->in.dim[2] / l->size);
	return 0;
}

static int infer_dense(struct layer *l, size_t i, struct mlr_error *err)
{
	if (l->outputs < 1 || l->outputs > SIZE_LIMIT)
		return bad(l, i, err, "%d units; 1 to %d are possible", l->outputs, SIZE_LIMIT);
	l->out = shape1(l->outputs);
	return 0;
}

static int infer_shape(struct layer *l, size_t i, struct mlr_error *err)
{
	switch (l->kind) {
	case LAYER_CONV:
		return infer_conv(l, i, err);
	case LAYER_MAXPOOL:
		return infer_pool(l, i, err);
	case LAYER_DENSE:
		return infer_dense(l, i, err);
	case LAYER_RELU:
		l->out = l->in;
		return 0;
	case LAYER_DROPOUT:
		if (!(l->rate >= 0 && l->rate < 1))
			return bad(l, i, err, "dropout rate %g; at least 0 and below 1 is possible",
				l->rate);
		l->out = l->in;
		return 0;
	}
	return bad(l, i, err, "kind %d is unknown", (int)l->kind);
}

/* The number of elements of a shape whose dimensions are checked, or 0 beyond the limit. */
static size_t bounded_count(const struct shape *s)
{
	size_t n = 1;

	for (int i = 0; i < s->rank; i++)
		if (__builtin_mul_overflow(n, (size_t)s->dim[i], &n) || n > COUNT_LIMIT)
			return 0;
	return n;
}

static int infer_params(struct net *net, struct layer *l, size_t i, struct mlr_error *err)
{
	struct shape w;

	if (!bounded_count(&l->out))
		return bad(l, i, err, "its output has more than %zu elements", COUNT_LIMIT);
	l->weight_at = l->bias_at = net->params;
	l->weights = l->biases = 0;
	if (!layer_has_params(l))
		return 0;
	if (!(l->sigma >= 0 && isfinite(l->sigma) && isfinite(l->bias)))
		return bad(l, i, err, "initial weights of deviation %g, biases of %g", l->sigma,
			l->bias);

	w = layer_weight_shape(l);
	l->weights = bounded_count(&w);
	if (!l->weights)
		return bad(l, i, err, "it has more than %zu weights", COUNT_LIMIT);
	l->biases = (size_t)l->outputs;
	l->bias_at = l->weight_at + l->weights;
	net->params = l->bias_at + l->biases;
	return 0;
}

static int infer(struct net *net, struct mlr_error *err)
{
	struct shape in = net->input;
	int r;

	for (size_t i = 0; i < net->n; i++) {
		struct layer *l = &net->layers[i];

		l->in = in;
		r = check_name(net->layers, i, err);
		if (r < 0)
			return r;
		r = infer_shape(l, i, err);
		if (r < 0)
			return r;
		r = infer_params(net, l, i, err);
		if (r < 0)
			return r;
		in = l->out;
	}
	return 0;
}

int net_new(const char *name, struct shape input, const struct layer *layers, size_t n,
	struct net **ret, struct mlr_error *err)
{
	auto_call(net_free) struct net *net = xcalloc(1, sizeof(*net));
	const struct layer *last;
	int r;

	snprintf(net->name, sizeof(net->name), "%s", name);
	net->input = input;
	net->n = n;
	net->layers = xcalloc(n ? n : 1, sizeof(*net->layers));
	if (n == 0)
		return mlr_fail(err, EINVAL, "network '%s' has no layers", net->name);
	memcpy(net->layers, layers, n * sizeof(*layers));
	for (int i = 0; i < 3; i++)
		if (input.rank != 3 || input.dim[i] < 1 || input.dim[i] > SIZE_LIMIT)
			return mlr_fail(err, EINVAL,
				"network '%s': images of %d x %d x %d are not possible", net->name,
				input.dim[0], input.dim[1], input.dim[2]);
	if (!bounded_count(&input))
		return mlr_fail(err, EINVAL, "network '%s': images have more than %zu elements",
			net->name, COUNT_LIMIT);
	r = infer(net, err);
	if (r < 0)
		return mlr_wrap(err, "network '%s'", net->name);

	last = &net->layers[n - 1];
	if (last->kind != LAYER_DENSE || last->outputs > 256) {
		bad(last, n - 1, err,
			"the last layer must be dense, with at most 256 units, one a class");
		return mlr_wrap(err, "network '%s'", net->name);
	}
	net->classes = last->outputs;
	*ret = take_ptr(&net);
	return 0;
}

int net_check_batch(const struct net *net, int batch, struct mlr_error *err)
{
	size_t most = shape_count(&net->input);

	for (size_t i = 0; i < net->n; i++)
		if (shape_count(&net->layers[i].out) > most)
			most = shape_count(&net->layers[i].out);
	if (most > (size_t)INT_MAX / (size_t)batch)
		return mlr_fail(err, EINVAL, "a batch of %d is too large for network '%s': at most %zu",
			batch, net->name, (size_t)INT_MAX / most);
	return 0;
}

void net_free(struct net **net)
{
	if (!*net)
		return;
	free((*net)->layers);
	free(*net);
	*net = NULL;
}

int net_reference(
	struct shape input, int classes, float dropout, struct net **ret, struct mlr_error *err)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "conv1", .outputs = 32, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.1f, .bias = 0 },
		{ LAYER_RELU, "relu1" },
		{ LAYER_MAXPOOL, "pool1", .size = 2 },
		{ LAYER_CONV, "conv2", .outputs = 64, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.1f, .bias = 0.1f },
		{ LAYER_RELU, "relu2" },
		{ LAYER_MAXPOOL, "pool2", .size = 2 },
		{ LAYER_DENSE, "fc1", .outputs = 512, .sigma = 0.1f, .bias = 0.1f, .decay = 1 },
		{ LAYER_RELU, "relu3" },
		{ LAYER_DROPOUT, "dropout", .rate = dropout },
		{ LAYER_DENSE, "fc2", .outputs = classes, .sigma = 0.1f, .bias = 0.1f, .decay = 1 },
	};

	return net_new("convolutional", input, layers, ARRAY_LEN(layers), ret, err);
}

void net_init_params(const struct net *net, uint64_t seed, float *params)
{
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		struct rng rng;

		rng_init(&rng, seed, RNG_WEIGHTS, i);
		for (size_t k = 0; k < l->weights; k++)
			params[l->weight_at + k] = (float)rng_normal_cut(&rng, l->sigma);
		for (size_t k = 0; k < l->biases; k++)
			params[l->bias_at + k] = l->bias;
	}
}
