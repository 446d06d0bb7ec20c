#include "backend/cuda/product/product.h"

#include "backend/cuda/product/choice.h"
#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/libraries/gemm_lt.h"

_Static_assert(CHOICE_ENGINES <= GEMM_LT_ALGORITHMS, "the search asks cublasLt for this many");

#define LIBRARY_FLOPS \
	2e9 /* from which on cuBLASLt's start is worth it, where nothing is measured */

static const char *const names[] = { "forward", "data", "weights" };

/* Opened once; a library that is missing is told once. */
static int library_is_there(int (*open)(struct mlr_error *), int *known, const char *name)
{
	struct mlr_error why = MLR_ERROR_INIT;

	if (*known)
		return *known > 0;
	*known = open(&why) == 0 ? 1 : -1;
	if (*known < 0)
		mlr_debug("cuda: without %s: %s", name, why.text);
	return *known > 0;
}

static int dnn_is_there(void)
{
	static int known;

	return library_is_there(conv_dnn_open, &known, "cuDNN");
}

static int lt_is_there(void)
{
	static int known;

	return library_is_there(gemm_lt_open, &known, "cuBLASLt");
}

static double flops_of(const struct node *n)
{
	const struct kernel_conv *d = &n->conv;

	return 2.0 * d->n * d->p * d->q * d->k * d->c * d->r * d->r;
}

/* May a library compute it at all? It wants whole vectors, and has no sums of a convolution's
 * biases. */
static int library_serves(const struct node *n, enum product_what what)
{
	if (n->few || n->conv.c % 8 || n->conv.k % 8 || n->weights % 8)
		return 0;
	return n->kind == LAYER_DENSE || what != PRODUCT_WEIGHTS || !n->biases;
}

void product_key(
	const struct node *n, enum dtype dtype, enum product_what what, char key[PRODUCT_KEY_MAX])
{
	const struct kernel_conv *d = &n->conv;

	snprintf(key, PRODUCT_KEY_MAX, "%s %s n%d %dx%dx%d k%d r%d s%d p%d%s%s", names[what],
		dtype_name(dtype), d->n, d->h, d->w, d->c, d->k, d->r, d->stride, d->pad,
		n->relu ? " relu" : "", n->pool ? " pool" : "");
}

/* Which engine of a library's is it to be? CHOICE_OWN: none. */
static int wanted_engine(
	const struct node *n, const struct product_limits *l, enum product_what what)
{
	const char *told = getenv("MLTRAIN_CUDA_PRODUCTS");
	char key[PRODUCT_KEY_MAX];
	int measured;

	if (told && strcmp(told, "own") == 0)
		return CHOICE_OWN;
	product_key(n, l->dtype, what, key);
	measured = choice_find(key);
	if (told && strcmp(told, "library") == 0)
		return measured >= 0 ? measured : 0;
	if (measured != CHOICE_UNKNOWN)
		return measured;
	return n->kind == LAYER_DENSE && flops_of(n) >= LIBRARY_FLOPS ? 0 : CHOICE_OWN;
}

static int prepare_dnn(const struct node *n, const struct product_limits *l, enum product_what what,
	int which, struct conv_dnn **ret, struct mlr_error *err)
{
	const struct kernel_conv *d = &n->conv;
	struct conv_shape s = { .what = (enum conv_what)what,
		.n = d->n,
		.h = d->h,
		.w = d->w,
		.c = d->c,
		.k = d->k,
		.r = d->r,
		.stride = d->stride,
		.pad = d->pad,
		.p = d->p,
		.q = d->q,
		.dtype = l->dtype,
		.bias = what == PRODUCT_FORWARD && n->biases,
		.relu = what == PRODUCT_FORWARD && n->relu,
		.deterministic = l->deterministic };

	return conv_dnn_new(&s, l->workspace, which, ret, err);
}

static int prepare_lt(const struct node *n, const struct product_limits *l, enum product_what what,
	int is_float, int which, struct gemm_lt **ret, struct mlr_error *err)
{
	struct gemm_shape s = { .what = (enum gemm_what)what,
		.n = n->conv.n,
		.c = n->conv.c,
		.k = n->conv.k,
		.dtype = l->dtype,
		.c_is_f32 = what == PRODUCT_WEIGHTS || (what == PRODUCT_FORWARD && is_float),
		.bias = what != PRODUCT_DATA && n->biases,
		.relu = what == PRODUCT_FORWARD && n->relu };

	return gemm_lt_new(&s, l->workspace, which, ret, err);
}

int product_prepare(const struct node *n, const struct product_limits *l, enum product_what what,
	int is_float, int which, struct product *ret, struct mlr_error *err)
{
	if (!library_serves(n, what))
		return mlr_fail(err, ENOTSUP, "a shape that libraries are not asked for");
	if (n->kind == LAYER_DENSE)
		return lt_is_there() ? prepare_lt(n, l, what, is_float, which, &ret->lt[what], err)
				     : mlr_fail(err, ENOTSUP, "there is no cuBLASLt");
	return dnn_is_there() ? prepare_dnn(n, l, what, which, &ret->dnn[what], err)
			      : mlr_fail(err, ENOTSUP, "there is no cuDNN");
}

/* The library that would compute a node, when it is not there. */
static const char *missing_library(const struct node *n)
{
	if (n->kind == LAYER_DENSE)
		return lt_is_there() ? NULL : "cuBLASLt";
	return dnn_is_there() ? NULL : "cuDNN";
}

const char *product_choose(
	const struct node *n, const struct product_limits *l, int is_float, struct product *ret)
{
	const char *missing = NULL;
	int last = l->trains ? PRODUCT_WEIGHTS : PRODUCT_FORWARD;

	for (int i = PRODUCT_FORWARD; i <= last; i++) {
		enum product_what what = (enum product_what)i;
		struct mlr_error why = MLR_ERROR_INIT;
		int engine = wanted_engine(n, l, what);

		if (engine < 0 || product_prepare(n, l, what, is_float, engine, ret, &why) == 0)
			continue;
		/* Another version of the library may have fewer engines than were measured. */
		if (engine > 0 && product_prepare(n, l, what, is_float, 0, ret, &why) == 0)
			continue;
		mlr_debug("cuda: layer '%s', %s, by a kernel of our own: %s", n->layer->name,
			names[what], why.text);
		if (library_serves(n, what))
			missing = missing_library(n);
	}
	return missing;
}

static void free_product(struct product *p, int what)
{
	conv_dnn_free(&p->dnn[what]);
	gemm_lt_free(&p->lt[what]);
}

void product_give_up(const struct node *n, enum product_what what, const struct mlr_error *why,
	struct product *p)
{
	static int told;

	if (!told++)
		mlr_warning(
			"cuda: a library fails, and kernels of our own do its work from now on: "
			"layer '%s', %s: %s",
			n->layer->name, names[what], why->text);
	else
		mlr_debug("cuda: layer '%s', %s, by a kernel of our own from now on: %s",
			n->layer->name, names[what], why->text);
	free_product(p, what);
}

void product_done(struct product *p)
{
	for (int i = 0; i < PRODUCTS; i++)
		free_product(p, i);
}
