/* mltrain bench: measures training and predicting against the machine's limits. */
#include "cli/mltrain.h"

#include "base/base.h"
#include "cli/arg.h"
#include "cli/bench_rows.h"
#include "model/net_file.h"
#include "train/cpus.h"

#define BATCHES_MAX 32
#define DTYPES_MAX  3
#define SEED        1

struct args {
	const char *net;
	const struct backend *backend;
	enum dtype dtypes[DTYPES_MAX];
	size_t n_dtypes;
	int batches[BATCHES_MAX];
	size_t n_batches;
	int threads;
	double seconds;
	int only; /* enum engine_use, or -1: both */
	int json, verbose;
};

static const char *const uses[] = {
	[ENGINE_TRAINS] = "train", [ENGINE_PREDICTS] = "predict", NULL
};

static void parse_dtypes(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	char *rest = arg, *word;

	a->n_dtypes = 0;
	while ((word = strsep(&rest, ","))) {
		enum dtype d;

		arg_dtype(&d, word, state);
		for (size_t i = 0; i < a->n_dtypes; i++)
			if (a->dtypes[i] == d)
				argp_error(state, "--dtype names %s twice", dtype_name(d));
		a->dtypes[a->n_dtypes++] = d;
	}
}

static void parse_batches(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	char *rest = arg, *word;

	a->n_batches = 0;
	while ((word = strsep(&rest, ","))) {
		if (a->n_batches == BATCHES_MAX)
			argp_error(state, "--batch names more than %d sizes", BATCHES_MAX);
		a->batches[a->n_batches++] = (int)options_count(state, "batch", word, 1, 1 << 24);
	}
}

static const struct option_row options[] = { { "net", 0, "NAME|FILE", 0,
						     "the network's description (reference)", 1,
						     OPT(struct args, net) },
	{ "backend", 0, "NAME", 0, "one that mltrain --version lists, or auto (auto)", 1,
		OPT_PARSE(struct args, backend, arg_backend) },
	{ "dtype", 0, "TYPE[,TYPE...]", 0, "f32, bf16 or tf32 (f32,bf16)", 1,
		OPT_CALL(parse_dtypes) },
	{ "batch", 'b', "N[,N...]", 0, "images of a step (1,16,64,512)", 1,
		OPT_CALL(parse_batches) },
	{ "threads", 't', "N", 0, "number of threads (one for each usable CPU)", 1,
		OPT_COUNT(struct args, threads, 1, ARG_THREADS_MAX) },
	{ "isa", 0, "NAME", 0, "no wider instructions than sse4, avx2, avx512, avx512-bf16, amx", 1,
		OPT_CALL(arg_isa) },
	{ "seconds", 0, "S", 0, "time to measure each row (1)", 1,
		OPT_NUMBER(struct args, seconds, 0.01, 3600) },
	{ "only", 0, "USE", 0, "train or predict (both)", 1, OPT_WORD(struct args, only, uses) },
	{ "json", 0, NULL, 0, "print an object instead of the table", 2, OPT(struct args, json) },
	{ "verbose", 'v', NULL, 0, "print each engine's memory plan too", 2,
		OPT(struct args, verbose) },
	{ 0 } };

static const struct options_syntax syntax = {
	.options = options,
	.doc = "Measure how many images per second this machine trains on and predicts, by batch size and "
	       "dtype, and compare with its limits: matrix products of the backend's library and copies of "
	       "memory, measured in the same run. The images are random.",
	.surplus = "not an option; a network is given with --net",
};

/* Return the first line of an error: a row has no room for a hint. */
static char *reason(const struct mlr_error *err)
{
	return xstrndup(err->text, strcspn(err->text, "\n"));
}

static struct throughput_wish wish_of(
	const struct args *a, const struct net *net, enum engine_use use, enum dtype d, int batch)
{
	return (struct throughput_wish){ net, a->backend, use, d, batch, a->threads, a->seconds,
		SEED };
}

/* Measure one dtype's limits. The first engine that opens also describes the machine. */
static void measure_ceiling(
	const struct args *a, struct bench_result *result, struct bench_ceiling *c)
{
	struct throughput_wish w = wish_of(a, result->net, ENGINE_TRAINS, c->dtype, 1);
	auto_call(engine_close) struct engine *e = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int r = throughput_open(&w, &e, &err);

	if (e && !result->backend[0]) {
		snprintf(result->backend, sizeof(result->backend), "%s", e->backend->name);
		snprintf(result->device, sizeof(result->device), "%s", e->device);
		result->threads = e->threads;
		result->isa = e->isa;
	}
	if (r == 0)
		r = roofline_measure(e, &c->roofline, &err);
	if (r < 0)
		c->error = reason(&err);
}

static void measure_row(const struct args *a, const struct bench_result *result,
	const struct bench_ceiling *c, struct bench_row *row)
{
	struct throughput_wish w = wish_of(a, result->net, row->use, row->dtype, row->batch);
	struct mlr_error err = MLR_ERROR_INIT;
	double least;

	if (throughput_measure(&w, &row->got, &err) < 0) {
		row->error = reason(&err);
		return;
	}
	row->images = row->batch / row->got.step.median;
	row->flops = throughput_flops(&w) / row->got.step.median;
	if (c->error)
		return;
	row->bound =
		roofline_seconds(&c->roofline, throughput_flops(&w), throughput_bytes(&w), &least);
	row->share = least / row->got.step.median;
}

static void measure_ceilings(const struct args *a, struct bench_result *result)
{
	result->ceilings = xcalloc(a->n_dtypes, sizeof(*result->ceilings));
	for (size_t i = 0; i < a->n_dtypes; i++) {
		struct bench_ceiling *c = &result->ceilings[result->n_ceilings++];

		c->dtype = a->dtypes[i];
		measure_ceiling(a, result, c);
	}
	if (!result->backend[0])
		snprintf(result->backend, sizeof(result->backend), "%s", a->backend->name);
}

/* Returns the number of rows measured. */
static size_t measure_rows(const struct args *a, struct bench_result *result)
{
	size_t dtypes = result->n_ceilings, of_a_use = dtypes * a->n_batches;
	size_t n = a->only < 0 ? 2 * of_a_use : of_a_use;
	size_t measured = 0;

	result->rows = xcalloc(n, sizeof(*result->rows));
	for (size_t i = 0; i < n; i++) {
		struct bench_row *row = &result->rows[result->n_rows++];
		const struct bench_ceiling *c = &result->ceilings[i / a->n_batches % dtypes];

		row->use = i < of_a_use ? ENGINE_TRAINS : ENGINE_PREDICTS;
		if (a->only >= 0)
			row->use = (enum engine_use)a->only;
		row->dtype = c->dtype;
		row->batch = a->batches[i % a->n_batches];
		measure_row(a, result, c, row);
		measured += !row->error;
		if (!a->json)
			bench_print_row(row);
		if (!a->json && a->verbose)
			bench_print_plan(row);
	}
	return measured;
}

static int run(const struct args *a, struct mlr_error *err)
{
	const struct net_wish wish = NET_WISH_ANYTHING;
	auto_call(net_free) struct net *net = NULL;
	auto_call(bench_result_done) struct bench_result result = { .seconds = a->seconds,
		.seed = SEED };
	size_t measured;

	TRY(net_read(a->net, &wish, &net, NULL, err));
	result.net = net;
	measure_ceilings(a, &result);
	if (!a->json)
		bench_print_head(&result);
	measured = measure_rows(a, &result);
	if (a->json)
		bench_print_json(&result);
	if (!measured)
		return mlr_fail(
			err, ENOTSUP, "bench: nothing could be measured: %s", result.rows[0].error);
	return 0;
}

int cmd_bench(int argc, char **argv)
{
	struct args a = { .net = "reference",
		.backend = backend_find("auto"),
		.dtypes = { DTYPE_F32, DTYPE_BF16 },
		.n_dtypes = 2,
		.batches = { 1, 16, 64, 512 },
		.n_batches = 4,
		.only = -1,
		.seconds = 1 };
	struct mlr_error err = MLR_ERROR_INIT;

	options_parse("mltrain bench", argc, argv, &syntax, &a);
	if (!a.threads)
		a.threads = cpus_available("");
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
