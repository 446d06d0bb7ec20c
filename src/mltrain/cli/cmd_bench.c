/* mltrain bench: measures training and predicting against the machine's limits. */
#include "base/json.h"
#include "bench/throughput.h"
#include "cli/arg.h"
#include "cli/mltrain.h"
#include "model/net_file.h"
#include "train/cpus.h"

/* Prints the measurements of mltrain bench for people or as JSON. */

/* The machine's limits with one dtype. */
struct bench_ceiling {
	enum dtype dtype;
	char *error; /* owned; why it was not measured, or NULL */
	struct roofline roofline;
};

/* A batch size in a dtype, trained or predicted. */
struct bench_row {
	enum engine_use use;
	enum dtype dtype;
	int batch;
	char *error; /* owned; why it was not measured, or NULL: then all below holds */
	struct throughput got;
	double images, flops; /* per second, by the median */
	enum roofline_bound bound;
	double share; /* of the roofline, in [0, 1]; 0 with BOUND_NONE */
};

struct bench_result {
	const struct net *net;
	char backend[32], device[64];
	int threads;     /* 0: on a GPU */
	const char *isa; /* of the CPU, the engine's; or NULL */
	double seconds;
	uint64_t seed;
	struct bench_ceiling *ceilings;
	size_t n_ceilings;
	struct bench_row *rows;
	size_t n_rows;
};

static void bench_result_done(struct bench_result *r)
{
	for (size_t i = 0; i < r->n_ceilings; i++)
		free(r->ceilings[i].error);
	for (size_t i = 0; i < r->n_rows; i++) {
		free(r->rows[i].error);
		free(r->rows[i].got.plan);
	}
	free(r->ceilings);
	free(r->rows);
}

static const char *const uses[] = {
	[ENGINE_TRAINS] = "train", [ENGINE_PREDICTS] = "predict", NULL
};
static const char *const bounds[] = { "", "products", "memory" };

/* --- for people ------------------------------------------------------------------------------- */

static void print_spread(const char *what, const struct spread *s, double unit, const char *name)
{
	printf("%s %.1f (%.1f..%.1f) %s", what, s->median / unit, s->min / unit, s->max / unit,
		name);
}

static void print_ceiling(const struct bench_ceiling *c)
{
	printf("roofline %s: ", dtype_name(c->dtype));
	if (c->error) {
		printf("not measured: %s\n", c->error);
		return;
	}
	if (c->roofline.has_product)
		print_spread("matrix product", &c->roofline.product, 1e9, "GFLOP/s");
	else
		printf("no library whose matrix product could be measured");
	print_spread(", copy", &c->roofline.copy, 1e9, "GB/s\n");
}

/* Print what comes before the rows; a row once it is measured. */
static void bench_print_head(const struct bench_result *r)
{
	printf("net %s: %zu parameters, %.3f MFLOP an image forward\n", r->net->name,
		r->net->params, net_flops(r->net) / 1e6);
	printf("backend %s", r->backend);
	if (r->device[0])
		printf(" on %s", r->device);
	if (r->isa)
		printf(", %s", r->isa);
	if (r->threads)
		printf(", %d thread%s", r->threads, r->threads == 1 ? "" : "s");
	printf("; %d rounds in %g s a row\n", ROUNDS, r->seconds);
	for (size_t i = 0; i < r->n_ceilings; i++)
		print_ceiling(&r->ceilings[i]);
	printf("\n%-7s  %-5s  %6s  %10s %-23s  %9s %-21s  %9s  %-15s  %9s\n", "use", "dtype",
		"batch", "images/s", "(min..max)", "ms/batch", "(min..max)", "GFLOP/s",
		"of the roofline", "memory MB");
}

static void bench_print_row(const struct bench_row *row)
{
	const struct spread *s = &row->got.step;
	char images[40], step[40], share[32] = "-";

	printf("%-7s  %-5s  %6d  ", uses[row->use], dtype_name(row->dtype), row->batch);
	if (row->error) {
		printf("not measured: %s\n", row->error);
		return;
	}
	snprintf(images, sizeof(images), "(%.0f..%.0f)", row->batch / s->max, row->batch / s->min);
	snprintf(step, sizeof(step), "(%.3f..%.3f)", s->min * 1e3, s->max * 1e3);
	if (row->bound != BOUND_NONE)
		snprintf(share, sizeof(share), "%.0f %% %s", 100 * row->share, bounds[row->bound]);
	printf("%10.0f %-23s  %9.3f %-21s  %9.1f  %-15s  %9.1f\n", row->images, images,
		s->median * 1e3, step, row->flops / 1e9, share, (double)row->got.memory / 1e6);
}

/* --- for scripts ------------------------------------------------------------------------------ */

static json_t *spread_json(const struct spread *s)
{
	return json_pack("{s:f, s:f, s:f}", "median", s->median, "min", s->min, "max", s->max);
}

static json_t *ceiling_json(const struct bench_ceiling *c)
{
	const struct roofline *r = &c->roofline;
	json_t *product = !c->error && r->has_product ? spread_json(&r->product) : json_null();
	json_t *copy = c->error ? json_null() : spread_json(&r->copy);

	return json_pack("{s:s, s:o, s:o, s:o}", "dtype", dtype_name(c->dtype), "product_flops",
		product, "copy_bytes", copy, "error", mlr_json_text(c->error));
}

static json_t *measured_json(const struct bench_row *row)
{
	const struct spread *s = &row->got.step;
	const struct spread images = { row->images, row->batch / s->max, row->batch / s->min };
	int bound = row->bound != BOUND_NONE;

	return json_pack("{s:o, s:o, s:I, s:f, s:o, s:o, s:I, s:o}", "images_per_second",
		spread_json(&images), "step_seconds", spread_json(s), "steps",
		(json_int_t)row->got.steps, "flops", row->flops, "bound",
		mlr_json_text(bound ? bounds[row->bound] : NULL), "roofline_share",
		bound ? json_real(row->share) : json_null(), "memory_bytes",
		(json_int_t)row->got.memory, "plan", mlr_json_text(row->got.plan));
}

static json_t *nothing_json(void)
{
	return json_pack("{s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "images_per_second",
		"step_seconds", "steps", "flops", "bound", "roofline_share", "memory_bytes",
		"plan");
}

static json_t *row_json(const struct bench_row *row)
{
	json_t *o = json_pack("{s:s, s:s, s:i, s:o}", "use", uses[row->use], "dtype",
		dtype_name(row->dtype), "batch", row->batch, "error", mlr_json_text(row->error));
	json_t *more = row->error ? nothing_json() : measured_json(row);

	json_object_update(o, more);
	json_decref(more);
	return o;
}

/* Print everything as one JSON object. */
static void bench_print_json(const struct bench_result *r)
{
	auto_free char *text = mlr_json_print(
		json_pack("{s:o, s:I, s:f, s:s, s:o, s:s?, s:o, s:i, s:f, s:I, s:o, s:o}", "net",
			mlr_json_text(r->net->name), "parameters", (json_int_t)r->net->params,
			"forward_flops", net_flops(r->net), "backend", r->backend, "device",
			mlr_json_text(r->device[0] ? r->device : NULL), "isa", r->isa, "threads",
			r->threads ? json_integer(r->threads) : json_null(), "rounds", ROUNDS,
			"seconds", r->seconds, "seed", (json_int_t)r->seed, "rooflines",
			MLR_JSON_LIST(i, r->n_ceilings, ceiling_json(&r->ceilings[i])), "rows",
			MLR_JSON_LIST(i, r->n_rows, row_json(&r->rows[i]))),
		JSON_INDENT(2) | JSON_REAL_PRECISION(9));

	puts(text);
}

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
		if (!a->json && a->verbose && row->got.plan)
			printf("%s", row->got.plan);
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
	a.threads = a.threads ? cpus_cut(a.threads, 1) : cpus_available("");
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
