#include "backend/cuda/product/product.h"

#include "backend/cuda/product/choice.h"
#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/device.h"
#include "backend/cuda/libraries/gemm_lt.h"

#define ROUNDS 20 /* runs that are timed together, after as many that are not */

/* Arrays for one node's products, all on the device; what is in them does not matter. */
struct bench {
	const struct node *node;
	const struct product_limits *limits;
	cudaStream_t stream;
	enum product_what what;
	struct product product; /* the library's */
	void *x, *w, *y, *full, *scratch, *workspace;
	float *partial, *bias;
	uint8_t *winners;
	uint32_t *tickets;
	int splits;
	size_t stride;
};

int tune_is_asked(void)
{
	const char *told = getenv("MLTRAIN_TUNE");

	return told && *told && strcmp(told, "0") != 0;
}

static int take(const struct bench *b, void *at, size_t bytes, struct mlr_error *err)
{
	void *p = NULL;

	CU_TRY(cudaMalloc(&p, bytes + 256));
	CU_TRY(cudaMemsetAsync(p, 0, bytes + 256, b->stream));
	memcpy(at, &p, sizeof(p));
	return 0;
}

static void bench_done(struct bench *b)
{
	void *all[] = { b->x, b->w, b->y, b->full, b->scratch, b->workspace, b->partial, b->bias,
		b->winners, b->tickets };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		cudaFree(all[i]);
}

static int bench_init(struct bench *b, struct mlr_error *err)
{
	const struct kernel_conv *d = &b->node->conv;
	size_t size = kernel_size(b->limits->dtype), n = (size_t)d->n;
	size_t y = n * (size_t)d->p * (size_t)d->q * (size_t)d->k;

	b->splits = kernel_conv_splits(d, b->limits->dtype);
	b->stride = (b->node->weights + b->node->biases + 63) / 64 * 64;
	TRY(take(b, &b->x, n * (size_t)d->h * (size_t)d->w * (size_t)d->c * size, err));
	TRY(take(b, &b->w, b->node->weights * size, err));
	TRY(take(b, &b->y, y * 4, err)); /* as_float writes more */
	TRY(take(b, &b->full, y * size, err));
	TRY(take(b, &b->winners, y, err));
	TRY(take(b, &b->bias, (size_t)d->k * sizeof(float), err));
	TRY(take(b, &b->partial, (size_t)b->splits * b->stride * sizeof(float), err));
	TRY(take(b, &b->scratch, kernel_conv_scratch(d, b->limits->dtype), err));
	TRY(take(b, &b->workspace, b->limits->workspace, err));
	return take(b, &b->tickets, KERNEL_TICKETS * sizeof(uint32_t), err);
}

static int run_own(struct bench *b, struct mlr_error *err)
{
	const struct node *n = b->node;
	enum dtype dtype = b->limits->dtype;
	struct kernel_scratch scratch = { b->scratch, b->tickets };
	struct kernel_after after = { .bias = n->biases ? b->bias : NULL,
		.relu = n->relu,
		.winners = n->pool ? b->winners : NULL };
	struct kernel_before before = { 0 };

	if (b->what == PRODUCT_FORWARD)
		CU_TRY(kernel_conv_forward(
			&n->conv, dtype, b->x, b->w, &after, b->y, &scratch, b->stream));
	else if (b->what == PRODUCT_DATA)
		CU_TRY(kernel_conv_backward_data(
			&n->conv, dtype, b->y, b->w, &before, b->x, &scratch, b->stream));
	else
		CU_TRY(kernel_conv_backward_weights(&n->conv, dtype, b->x, b->y, b->splits,
			b->stride, n->biases > 0, b->partial, b->stream));
	return 0;
}

static int run_library(struct bench *b, struct mlr_error *err)
{
	const struct node *n = b->node;
	struct gemm_lt *lt = b->product.lt[b->what];
	struct conv_dnn *dnn = b->product.dnn[b->what];
	void *w = b->what == PRODUCT_WEIGHTS ? (void *)b->partial : b->w;
	void *y = b->what == PRODUCT_FORWARD && n->pool ? b->full : b->y;

	if (dnn)
		TRY(conv_dnn_run(
			dnn, b->x, w, n->biases ? b->bias : NULL, y, b->workspace, b->stream, err));
	else if (b->what == PRODUCT_FORWARD)
		TRY(gemm_lt_run(lt, b->x, w, y, b->bias, b->workspace, b->stream, err));
	else if (b->what == PRODUCT_DATA)
		TRY(gemm_lt_run(lt, y, w, b->x, NULL, b->workspace, b->stream, err));
	else
		TRY(gemm_lt_run(
			lt, b->x, y, w, b->partial + n->weights, b->workspace, b->stream, err));
	if (b->what == PRODUCT_FORWARD && n->pool)
		CU_TRY(kernel_maxpool_forward(
			&n->window, b->limits->dtype, b->full, b->y, b->winners, b->stream));
	return 0;
}

static int time_rounds(struct bench *b, int (*run)(struct bench *, struct mlr_error *),
	cudaEvent_t from, cudaEvent_t to, float *ms, struct mlr_error *err)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		if (i == ROUNDS)
			CU_TRY(cudaEventRecord(from, b->stream));
		TRY(run(b, err));
	}
	CU_TRY(cudaEventRecord(to, b->stream));
	CU_TRY(cudaEventSynchronize(to));
	CU_TRY(cudaEventElapsedTime(ms, from, to));
	return 0;
}

/* Milliseconds of ROUNDS runs. */
static int time_of(struct bench *b, int (*run)(struct bench *, struct mlr_error *), float *ms,
	struct mlr_error *err)
{
	cudaEvent_t from, to;
	int r;

	CU_TRY(cudaEventCreateWithFlags(&from, cudaEventDefault));
	r = CU(cudaEventCreateWithFlags(&to, cudaEventDefault));
	if (r == 0) {
		r = time_rounds(b, run, from, to, ms, err);
		cudaEventDestroy(to);
	}
	cudaEventDestroy(from);
	return r;
}

/* The fastest of a library's engines into best and its time into ms; CHOICE_OWN: none runs. Returns
 * how many there were. */
static int tune_engines(struct bench *b, int is_float, const char *key, int *best, float *ms)
{
	int which = 0;

	*best = CHOICE_OWN;
	for (; which < CHOICE_ENGINES; which++) {
		struct mlr_error why = MLR_ERROR_INIT;
		float took = 0;
		int r;

		if (product_prepare(
			    b->node, b->limits, b->what, is_float, which, &b->product, &why) < 0)
			break;
		r = time_of(b, run_library, &took, &why);
		product_done(&b->product);
		if (r < 0) {
			mlr_info("%s: the library's engine %d fails: %s", key, which, why.text);
		} else if (*best == CHOICE_OWN || took < *ms) {
			*best = which;
			*ms = took;
		}
	}
	return which;
}

static int tune_product(struct bench *b, int is_float, struct mlr_error *err)
{
	char key[PRODUCT_KEY_MAX];
	float own = 0, library = 0;
	int best, engines;

	product_key(b->node, b->limits->dtype, b->what, key);
	engines = tune_engines(b, is_float, key, &best, &library);
	if (engines == 0)
		return 0; /* nothing to choose from */
	TRY(time_of(b, run_own, &own, err));
	if (best != CHOICE_OWN)
		mlr_info("%s: %.1f us by our kernel, %.1f us by the library's engine %d of %d", key,
			(double)own * 1000 / ROUNDS, (double)library * 1000 / ROUNDS, best,
			engines);
	choice_set(key, best != CHOICE_OWN && library < own ? best : CHOICE_OWN);
	return 0;
}

static int tune_node(const struct node *n, const struct product_limits *limits, int is_float,
	cudaStream_t stream, struct mlr_error *err)
{
	struct bench b = { .node = n, .limits = limits, .stream = stream };
	int last = limits->trains ? PRODUCT_WEIGHTS : PRODUCT_FORWARD;
	int r = bench_init(&b, err);

	for (int i = PRODUCT_FORWARD; i <= last && r == 0; i++) {
		b.what = (enum product_what)i;
		r = tune_product(&b, is_float, err);
	}
	bench_done(&b);
	return r;
}

int tune_nodes(const struct nodes *nodes, const struct product_limits *limits, cudaStream_t stream,
	struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;

	for (int i = 0; i < nodes->n; i++) {
		const struct node *n = &nodes->node[i];
		int r = 0;

		if (!n->few && (n->kind == LAYER_CONV || n->kind == LAYER_DENSE))
			r = tune_node(n, limits, nodes->tensor[n->y].is_float, stream, err);
		if (r < 0)
			return mlr_wrap(err, "measure layer '%s'", n->layer->name);
	}
	if (choice_save(&why) < 0)
		mlr_warning("choices were not kept: %s", why.text);
	return 0;
}
