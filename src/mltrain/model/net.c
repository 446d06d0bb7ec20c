#include "model/net.h"

#include "optimiser/optimiser.h"
#include "tensor/batch.h"
#include "tensor/rng.h"

#include <math.h>

/* Limits that keep a product of a few of them within size_t. */
#define SIZE_LIMIT   65536 /* of any one dimension */
#define KERNEL_LIMIT 255
#define WINDOW_LIMIT 15    /* a byte holds the index of a window's maximum */
#define CLASS_LIMIT  65535 /* labels are 16 bits wide */
#define NAME_LETTERS                                                                            \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./" /* in files and on \
										terminals */
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

/* Does a name begin like those of an optimiser's tensors in checkpoints? */
static int is_kept_name(const char *name)
{
	size_t len = strcspn(name, "/");

	for (int which = 0; name[len] && which < OPTIMISERS; which++)
		for (int k = 0; k < optimiser_states(which); k++)
			if (strncmp(name, optimisers[which].states[k], len) == 0 &&
				!optimisers[which].states[k][len])
				return 1;
	return 0;
}

static int check_name(const struct layer *layers, size_t i, struct mlr_error *err)
{
	const struct layer *l = &layers[i];

	if (!l->name[0] || strnlen(l->name, sizeof(l->name)) == sizeof(l->name))
		return mlr_fail(err, EINVAL, "layer %zu needs a name of 1 to %zu letters", i + 1,
			sizeof(l->name) - 1);
	if (l->name[strspn(l->name, NAME_LETTERS)])
		return mlr_fail(err, EINVAL,
			"layer %zu: its name may hold letters, digits, '_', '-', '.' and '/' alone",
			i + 1);
	if (is_kept_name(l->name))
		return mlr_fail(err, EINVAL,
			"layer %zu: its name begins with '%.*s/', as names of what checkpoints "
			"keep for training do",
			i + 1, (int)strcspn(l->name, "/"), l->name);
	if (strcmp(l->name, "input") == 0)
		return bad(l, i, err, "the name is that of the images");
	for (size_t j = 0; j < i; j++)
		if (strcmp(layers[j].name, l->name) == 0)
			return bad(l, i, err, "the name is that of layer %zu too", j + 1);
	return 0;
}

/* Does a layer of this kind read an image? */
static int want_image(const struct layer *l, size_t i, const char *who, struct mlr_error *err)
{
	if (l->in.rank == 3)
		return 0;
	return bad(l, i, err, "%s needs an image, but its input is a row of %d", who, l->in.dim[0]);
}

static int infer_conv(struct layer *l, size_t i, struct mlr_error *err)
{
	char text[SHAPE_TEXT_MAX];

	if (want_image(l, i, "a convolution", err) < 0)
		return -EINVAL;
	if (l->outputs < 1 || l->outputs > SIZE_LIMIT)
		return bad(l, i, err, "%d filters; 1 to %d are possible", l->outputs, SIZE_LIMIT);
	if (l->size < 1 || l->size > KERNEL_LIMIT)
		return bad(
			l, i, err, "kernel size %d; 1 to %d are possible", l->size, KERNEL_LIMIT);
	if (l->stride < 1 || l->stride > KERNEL_LIMIT)
		return bad(l, i, err, "stride %d; 1 to %d are possible", l->stride, KERNEL_LIMIT);
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

	if (want_image(l, i, "pooling", err) < 0)
		return -EINVAL;
	if (l->size < 1 || l->size > WINDOW_LIMIT)
		return bad(
			l, i, err, "window size %d; 1 to %d are possible", l->size, WINDOW_LIMIT);
	if (l->stride < 1 || l->stride > l->size)
		return bad(l, i, err, "stride %d; 1 to the window's size, %d, are possible",
			l->stride, l->size);
	if (l->in.dim[1] < l->size || l->in.dim[2] < l->size)
		return bad(l, i, err, "window size %d is larger than its input %s", l->size,
			shape_text(&l->in, text));
	l->out = shape3(l->in.dim[0], (l->in.dim[1] - l->size) / l->stride + 1,
		(l->in.dim[2] - l->size) / l->stride + 1);
	return 0;
}

static int infer_globalpool(struct layer *l, size_t i, struct mlr_error *err)
{
	if (want_image(l, i, "global pooling", err) < 0)
		return -EINVAL;
	l->out = shape1(l->in.dim[0]);
	return 0;
}

static int infer_dense(struct layer *l, size_t i, struct mlr_error *err)
{
	if (l->outputs < 1 || l->outputs > SIZE_LIMIT)
		return bad(l, i, err, "%d units; 1 to %d are possible", l->outputs, SIZE_LIMIT);
	l->out = shape1(l->outputs);
	return 0;
}

static int infer_dropout(struct layer *l, size_t i, struct mlr_error *err)
{
	if (!(l->rate >= 0 && l->rate < 1))
		return bad(
			l, i, err, "dropout rate %g; at least 0 and below 1 is possible", l->rate);
	l->out = l->in;
	return 0;
}

static int infer_batchnorm(struct layer *l, size_t i, struct mlr_error *err)
{
	if (!(l->epsilon > 0 && isfinite(l->epsilon)))
		return bad(l, i, err, "epsilon %g; a number above 0 is possible", l->epsilon);
	if (!(l->momentum > 0 && l->momentum <= 1))
		return bad(
			l, i, err, "momentum %g; above 0 and at most 1 is possible", l->momentum);
	l->out = l->in;
	return 0;
}

static int infer_add(const struct net *net, struct layer *l, size_t i, struct mlr_error *err)
{
	const struct shape *with = l->with < 0 ? &net->input : &net->layers[l->with].out;
	char a[SHAPE_TEXT_MAX], b[SHAPE_TEXT_MAX];

	if (memcmp(&l->in, with, sizeof(*with)) != 0)
		return bad(l, i, err, "%s of '%s' and %s of '%s' can't be added",
			shape_text(&l->in, a), net_layer_name(net, l->from), shape_text(with, b),
			net_layer_name(net, l->with));
	l->out = l->in;
	return 0;
}

static int infer_shape(const struct net *net, struct layer *l, size_t i, struct mlr_error *err)
{
	switch (l->kind) {
	case LAYER_CONV:
		return infer_conv(l, i, err);
	case LAYER_MAXPOOL:
	case LAYER_AVGPOOL:
		return infer_pool(l, i, err);
	case LAYER_GLOBALPOOL:
		return infer_globalpool(l, i, err);
	case LAYER_DENSE:
		return infer_dense(l, i, err);
	case LAYER_RELU:
		l->out = l->in;
		return 0;
	case LAYER_DROPOUT:
		return infer_dropout(l, i, err);
	case LAYER_BATCHNORM:
		return infer_batchnorm(l, i, err);
	case LAYER_ADD:
		return infer_add(net, l, i, err);
	default:
		break;
	}
	return bad(l, i, err, "kind %d is unknown", (int)l->kind);
}

/* Count the elements of a shape whose dimensions are checked; 0 above the limit. */
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
	l->state_at = net->states;
	l->weights = l->biases = l->states = 0;
	if (!layer_has_params(l))
		return 0;
	if (!(l->sigma >= 0 && isfinite(l->sigma) && isfinite(l->bias)))
		return bad(l, i, err, "initial weights of deviation %g, biases of %g", l->sigma,
			l->bias);
	if (!(l->decay >= 0 && isfinite(l->decay)))
		return bad(l, i, err, "decay %g; 0 or more is possible", l->decay);

	w = layer_weight_shape(l);
	l->weights = bounded_count(&w);
	if (!l->weights)
		return bad(l, i, err, "it has more than %zu weights", COUNT_LIMIT);
	l->biases = l->no_bias && l->kind != LAYER_BATCHNORM ? 0 : (size_t)w.dim[0];
	l->bias_at = l->weight_at + l->weights;
	l->states = l->kind == LAYER_BATCHNORM ? 2 * (size_t)w.dim[0] : 0;
	net->params = l->bias_at + l->biases;
	net->states += l->states;
	return 0;
}

/* Check that a layer reads an earlier one. */
static int check_reads(
	const struct layer *l, size_t i, const char *key, int which, struct mlr_error *err)
{
	if (which >= LAYER_INPUT && which < (int)i)
		return 0;
	return bad(l, i, err, "'%s' is layer %d, which does not lie before it", key, which + 1);
}

static int infer(struct net *net, struct mlr_error *err)
{
	for (size_t i = 0; i < net->n; i++) {
		struct layer *l = &net->layers[i];
		int r;

		if ((r = check_name(net->layers, i, err)) < 0 ||
			(r = check_reads(l, i, "from", l->from, err)) < 0)
			return r;
		l->in = l->from < 0 ? net->input : net->layers[l->from].out;
		if (l->kind == LAYER_ADD && (r = check_reads(l, i, "with", l->with, err)) < 0)
			return r;
		if ((r = infer_shape(net, l, i, err)) < 0 || (r = infer_params(net, l, i, err)) < 0)
			return r;
	}
	return 0;
}

/* Check that every layer but the last is read: another is a slip of the user. */
static int check_read(const struct net *net, struct mlr_error *err)
{
	auto_free char *read = xcalloc(net->n, 1);

	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];

		if (l->from >= 0)
			read[l->from] = 1;
		if (l->kind == LAYER_ADD && l->with >= 0)
			read[l->with] = 1;
	}
	for (size_t i = 0; i + 1 < net->n; i++)
		if (!read[i])
			return bad(&net->layers[i], i, err, "no layer reads its output");
	return 0;
}

static int check_last(const struct net *net, struct mlr_error *err)
{
	const struct layer *last = &net->layers[net->n - 1];

	if (last->kind == LAYER_DENSE && last->outputs <= CLASS_LIMIT)
		return 0;
	return bad(last, net->n - 1, err,
		"the last layer must be dense, with at most %d units, one a class", CLASS_LIMIT);
}

static int check_input(const struct net *net, struct mlr_error *err)
{
	const struct shape *in = &net->input;

	for (int i = 0; i < 3; i++)
		if (in->rank != 3 || in->dim[i] < 1 || in->dim[i] > SIZE_LIMIT)
			return mlr_fail(err, EINVAL, "images of %d x %d x %d are not possible",
				in->dim[0], in->dim[1], in->dim[2]);
	if (in->dim[0] > IMAGE_CHANNELS_MAX)
		return mlr_fail(err, EINVAL, "images of %d channels; 1 to %d are possible",
			in->dim[0], IMAGE_CHANNELS_MAX);
	if (!bounded_count(in))
		return mlr_fail(err, EINVAL, "images have more than %zu elements", COUNT_LIMIT);
	return 0;
}

int net_new(const char *name, struct shape input, const struct layer *layers, size_t n,
	struct net **ret, struct mlr_error *err)
{
	auto_call(net_free) struct net *net = xcalloc(1, sizeof(*net));
	int r;

	snprintf(net->name, sizeof(net->name), "%s", name);
	net->input = input;
	net->n = n;
	if (n == 0 || n > NET_LAYERS_MAX)
		return n ? mlr_fail(err, EINVAL,
				   "network '%s' has %zu layers; at most %d are possible",
				   net->name, n, NET_LAYERS_MAX)
			 : mlr_fail(err, EINVAL, "network '%s' has no layers", net->name);
	net->layers = xcalloc(n, sizeof(*net->layers));
	memcpy(net->layers, layers, n * sizeof(*layers));
	if ((r = check_input(net, err)) < 0 || (r = infer(net, err)) < 0 ||
		(r = check_last(net, err)) < 0 || (r = check_read(net, err)) < 0)
		return mlr_wrap(err, "network '%s'", net->name);
	net->classes = net->layers[n - 1].outputs;
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
		return mlr_fail(err, EINVAL,
			"a batch of %d is too large for network '%s': at most %zu", batch,
			net->name, (size_t)INT_MAX / most);
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

void net_init_states(const struct net *net, float *states)
{
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];

		for (size_t k = 0; k < l->states; k++)
			states[l->state_at + k] = k < l->states / 2 ? 0 : 1;
	}
}

double net_layer_flops(const struct layer *l)
{
	if (l->kind == LAYER_CONV)
		return 2.0 * (double)l->weights * l->out.dim[1] * l->out.dim[2];
	return l->kind == LAYER_DENSE ? 2.0 * (double)l->weights : 0;
}

double net_flops(const struct net *net)
{
	double flops = 0;

	for (size_t i = 0; i < net->n; i++)
		flops += net_layer_flops(&net->layers[i]);
	return flops;
}

void net_init_params(const struct net *net, uint64_t seed, float *params)
{
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		int norm = l->kind == LAYER_BATCHNORM;
		struct rng rng;

		rng_init(&rng, seed, RNG_WEIGHTS, i);
		for (size_t k = 0; k < l->weights; k++)
			params[l->weight_at + k] = norm ? 1 : (float)rng_normal_cut(&rng, l->sigma);
		for (size_t k = 0; k < l->biases; k++)
			params[l->bias_at + k] = norm ? 0 : l->bias;
	}
}
