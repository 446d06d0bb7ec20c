/*
 * The backend `onednn` against `reference` on networks made up by chance: sizes that nobody would
 * choose, layers in any order. With arguments, FIRST and COUNT, other networks than make check's.
 */
#include "trainer_net.h"

#define LAYERS_MAX 40
#define WORK_MAX   4e6 /* operations of a batch forward: reference is slow */

/*
 * How far apart numbers may be, as || a - b || / || b ||: sums in another order, which batch norm
 * of a few values makes more of. In bf16 it is 2^-9 an element, many times over, and a gradient of
 * one image that goes another way through a ReLU is another one: only garbage is told from it.
 */
#define CLOSE      2e-3
#define CLOSE_BF16 0.1
#define GRADS_BF16 1.5

struct made {
	struct rng rng;
	struct layer layers[LAYERS_MAX];
	struct shape out[LAYERS_MAX]; /* their shapes */
	struct shape input;
	int n, batch, rows, threads;
};

static int upto(struct made *m, int most)
{
	return (int)rng_below(&m->rng, (uint32_t)most + 1);
}

static int one_of(struct made *m, const int *from, size_t n)
{
	return from[rng_below(&m->rng, (uint32_t)n)];
}

static const struct shape *shape_of(const struct made *m, int which)
{
	return which < 0 ? &m->input : &m->out[which];
}

static struct layer *append(struct made *m, enum layer_kind kind, int from, struct shape out)
{
	struct layer *l = &m->layers[m->n];

	*l = (struct layer){ .kind = kind, .from = from, .epsilon = 1e-2f, .momentum = 0.1f };
	snprintf(l->name, sizeof(l->name), "%s%d", layer_kind_name(kind), m->n + 1);
	m->out[m->n++] = out;
	return l;
}

static void append_conv(struct made *m, int from, int outputs, int size, int stride, int pad)
{
	const struct shape *in = shape_of(m, from);
	struct layer *l = append(m, LAYER_CONV, from,
		shape3(outputs, (in->dim[1] + 2 * pad - size) / stride + 1,
			(in->dim[2] + 2 * pad - size) / stride + 1));

	l->outputs = outputs;
	l->size = size;
	l->stride = stride;
	l->pad = pad;
	l->no_bias = upto(m, 2) == 0;
	l->sigma = 1.5f / sqrtf((float)(in->dim[0] * size * size));
	l->decay = upto(m, 1) ? 0.5f : 0;
}

static void any_conv(struct made *m, int from)
{
	static const int outputs[] = { 1, 2, 5, 8, 15, 16, 16, 17, 24, 32, 48 };
	const struct shape *in = shape_of(m, from);
	int least = in->dim[1] < in->dim[2] ? in->dim[1] : in->dim[2];
	int size = 1 + upto(m, least + 1), pad = upto(m, size - 1), k = one_of(m, outputs, 11);

	if (upto(m, 2) == 0) /* as Winograd has it */
		append_conv(m, from, upto(m, 2) ? k : 16 * (k / 16 + 1), 5, 1, 2);
	else if (least + 2 * pad >= size)
		append_conv(m, from, k, size, 1 + upto(m, 2), pad);
}

static void any_pool(struct made *m, int from)
{
	const struct shape *in = shape_of(m, from);
	int least = in->dim[1] < in->dim[2] ? in->dim[1] : in->dim[2];
	int size = upto(m, 1) ? 2 : 1 + upto(m, least < 15 ? least - 1 : 14);
	int stride = upto(m, 1) ? size : 1 + upto(m, size - 1);
	struct layer *l;

	if (size > least)
		return;
	l = append(m, upto(m, 2) ? LAYER_MAXPOOL : LAYER_AVGPOOL, from,
		shape3(in->dim[0], (in->dim[1] - size) / stride + 1,
			(in->dim[2] - size) / stride + 1));
	l->size = size;
	l->stride = stride;
}

static void any_dense(struct made *m, int from, int outputs)
{
	struct layer *l = append(m, LAYER_DENSE, from, shape1(outputs));

	l->outputs = outputs;
	l->no_bias = upto(m, 2) == 0;
	l->bias = 0.1f;
	l->sigma = 1.5f / sqrtf((float)shape_count(shape_of(m, from)));
	l->decay = upto(m, 1) ? 1 : 0;
}

/* Add an output of the same shape, or a convolution of one that is as wide and high. */
static void any_sum(struct made *m, int from)
{
	const struct shape *s = shape_of(m, from);
	int with = upto(m, m->n) - 1;
	const struct shape *t = shape_of(m, with);

	if (memcmp(s, t, sizeof(*s)) != 0) {
		if (s->rank != 3 || t->rank != 3 || s->dim[1] != t->dim[1] ||
			s->dim[2] != t->dim[2])
			return;
		append_conv(m, with, s->dim[0], upto(m, 1) ? 3 : 1, 1, 0);
		m->layers[m->n - 1].pad = m->layers[m->n - 1].size / 2;
		with = m->n - 1;
		m->out[with] = *s;
	}
	append(m, LAYER_ADD, from, *s)->with = with;
}

/* Put one more layer behind the last, or none when its kind is not possible there. */
static void any_layer(struct made *m)
{
	int from = m->n - 1, what = upto(m, 11);
	struct shape in = *shape_of(m, from);

	if (what < 3 && in.rank == 3)
		any_conv(m, from);
	else if (what < 3)
		any_dense(m, from, 1 + upto(m, 40));
	else if (what < 6)
		append(m, LAYER_RELU, from, in);
	else if (what < 8 && in.rank == 3)
		any_pool(m, from);
	else if (what == 8)
		append(m, LAYER_DROPOUT, from, in)->rate = upto(m, 3) ? 0.4f
			: upto(m, 1)                                  ? 0
								      : 0.99f;
	else if (what == 9)
		append(m, LAYER_BATCHNORM, from, in)->decay = 0.5f;
	else if (what == 10)
		any_sum(m, from);
	else if (in.rank == 3 && upto(m, 2) == 0)
		append(m, LAYER_GLOBALPOOL, from, shape1(in.dim[0]));
}

/* A network, and what it is computed with; the same for the same seed. */
static struct net *make_net(uint64_t seed, struct made *m)
{
	static const int classes[] = { 1, 2, 10, 100, 256 };
	static const int batches[] = { 1, 2, 3, 7, 16, 33 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct net *net = NULL;

	memset(m, 0, sizeof(*m));
	rng_init(&m->rng, seed, RNG_TEST, 1);
	do {
		int layers = upto(m, 12);

		net_free(&net);
		m->n = 0;
		m->input = shape3(1 + upto(m, 3), 1 + upto(m, 15), 1 + upto(m, 15));
		if (upto(m, 7) == 0)
			m->input.dim[1] = m->input.dim[2] = 1;
		m->batch = one_of(m, batches, 6);
		m->rows = 1 + upto(m, m->batch - 1);
		m->threads = 1 + 2 * upto(m, 1);
		for (int i = 0; i < layers; i++)
			any_layer(m);
		any_dense(m, m->n - 1, one_of(m, classes, 5));
		if (net_new("random", m->input, m->layers, (size_t)m->n, &net, &err) < 0)
			fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
	} while (net_flops(net) * m->batch > WORK_MAX);
	return net;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* What one engine makes of a network. */
struct outcome {
	float *before, *after;          /* logits of some rows: at first, after training */
	float *params, *grads, *states; /* after training; gradients of its first step */
	struct step_result first;
};

static void outcome_done(struct outcome *o)
{
	free(o->before);
	free(o->after);
	free(o->params);
	free(o->grads);
	free(o->states);
}

struct job {
	enum dtype dtype; /* at hand */
	const struct net *net;
	const struct made *m;
	float *params;
	uint8_t *images;
	uint16_t *labels;
};

static void job_done(struct job *j)
{
	free(j->params);
	free(j->images);
	free(j->labels);
}

static void make_job(const struct net *net, struct made *m, struct job *j)
{
	size_t pixels = (size_t)m->batch * shape_count(&net->input);
	auto_free float *noise = random_floats(3, net->params);

	*j = (struct job){ .net = net, .m = m };
	j->params = xcalloc(net->params, sizeof(float));
	net_init_params(net, 1, j->params);
	for (size_t i = 0; i < net->params; i++)
		j->params[i] += 0.05f * noise[i];
	j->images = xcalloc(pixels, 1);
	for (size_t i = 0; i < pixels; i++)
		j->images[i] = (uint8_t)upto(m, 255);
	j->labels = xcalloc((size_t)m->batch, sizeof(*j->labels));
	for (int i = 0; i < m->batch; i++)
		j->labels[i] = (uint16_t)upto(m, net->classes - 1);
}

static struct engine *open_engine(
	const struct job *j, const struct backend *b, enum dtype dtype, enum engine_use use)
{
	struct engine_config c = {
		.batch = j->m->batch, .threads = j->m->threads, .dtype = dtype, .use = use
	};
	struct mlr_error err = MLR_ERROR_INIT;
	struct engine *e = NULL;

	for (int k = 0; k < IMAGE_CHANNELS_MAX; k++)
		c.norm.mean[k] = c.norm.scale[k] = 127.5f;
	if (b->open(j->net->layers, j->net->n, &c, &e, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(engine_set(e, ENGINE_PARAMS, j->params, NULL), 0);
	return e;
}

static float *logits_of(const struct job *j, struct engine *e)
{
	struct batch batch = { .rows = j->m->rows, .images = j->images };
	float *to = xcalloc((size_t)(batch.rows * j->net->classes), sizeof(float));

	assert_int_equal(engine_predict(e, &batch, to, NULL), 0);
	return to;
}

static float *block_of(const struct job *j, struct engine *e, enum engine_block which)
{
	size_t n = which == ENGINE_STATES ? j->net->states : j->net->params;
	float *to = xcalloc(n ? n : 1, sizeof(float));

	assert_int_equal(engine_get(e, which, to, NULL), 0);
	return to;
}

static struct outcome train(const struct job *j, const struct backend *b, enum dtype dtype)
{
	auto_call(engine_close) struct engine *e = open_engine(j, b, dtype, ENGINE_TRAINS);
	struct batch batch = { .rows = j->m->batch, .images = j->images, .labels = j->labels };
	struct outcome o = { .before = logits_of(j, e) };

	for (uint64_t i = 0; i < 2; i++) {
		const struct step s = {
			.lr = 0.01f, .momentum = 0.9f, .l2 = 0.01f, .seed = 1, .number = i
		};
		struct step_result r;

		assert_int_equal(engine_step(e, &batch, &s, 1, &r, NULL), 0);
		if (i > 0)
			break;
		o.grads = block_of(j, e, ENGINE_GRADS);
		o.first = r;
	}
	o.params = block_of(j, e, ENGINE_PARAMS);
	o.states = block_of(j, e, ENGINE_STATES);
	o.after = logits_of(j, e);
	return o;
}

static void tell(const struct job *j, const char *what, const char *layer, double d)
{
	const struct made *m = j->m;

	print_message("images %dx%dx%d, batch %d, rows %d, threads %d\n", m->input.dim[0],
		m->input.dim[1], m->input.dim[2], m->batch, m->rows, m->threads);
	for (size_t i = 0; i < j->net->n; i++) {
		const struct layer *l = &j->net->layers[i];
		char a[SHAPE_TEXT_MAX], c[SHAPE_TEXT_MAX];

		print_message("  %s of %d (%d): %s to %s, size %d stride %d pad %d%s%g\n", l->name,
			l->from + 1, l->with + 1, shape_text(&l->in, a), shape_text(&l->out, c),
			l->size, l->stride, l->pad, l->no_bias ? " no bias " : " ",
			(double)l->rate);
	}
	print_message("%s: %s%s%s differ by %g\n", dtype_name(j->dtype), what, layer ? " of " : "",
		layer ? layer : "", d);
}

static int differ(const struct job *j, const char *what, const float *a, const float *b, size_t n,
	double close)
{
	double d = distance(a, b, n);

	if (d < close)
		return 0;
	tell(j, what, NULL, d);
	return 1;
}

static double length_of(const float *a, size_t n)
{
	auto_free float *zero = xcalloc(n ? n : 1, sizeof(*zero));

	return distance(a, zero, n);
}

/* Layer by layer: one's slip shall not hide behind another's length. A gradient that is nothing but
 * rounding, as a bias's before batch norm, is measured by the whole. */
static int weights_differ(const struct job *j, const float *a, const float *b, double close)
{
	double whole = length_of(b, j->net->params);

	for (size_t i = 0; i < j->net->n; i++) {
		const struct layer *l = &j->net->layers[i];
		size_t n = l->weights + l->biases;
		double length = length_of(b + l->weight_at, n);
		double d = distance(a + l->weight_at, b + l->weight_at, n);

		d *= length / (length + 0.02 * whole);
		if (n && length > 0 && !(d < close)) {
			tell(j, "gradients", l->name, d);
			return 1;
		}
	}
	return 0;
}

static int outcomes_differ(const struct job *j, const struct outcome *a, const struct outcome *b,
	double close, int trained)
{
	size_t logits = (size_t)(j->m->rows * j->net->classes);
	double loss = fabs(a->first.cross_entropy - b->first.cross_entropy);

	if (differ(j, "logits", a->before, b->before, logits, close) ||
		weights_differ(j, a->grads, b->grads, j->dtype == DTYPE_BF16 ? GRADS_BF16 : close))
		return 1;
	if (!(loss <= close * (1 + fabs(b->first.cross_entropy)))) {
		tell(j, "losses", NULL, loss);
		return 1;
	}
	return trained &&
		(differ(j, "parameters", a->params, b->params, j->net->params, close) ||
			differ(j, "states", a->states, b->states, j->net->states, close) ||
			differ(j, "logits after training", a->after, b->after, logits, close));
}

/* An engine that only predicts fuses further, but shall say what one that trains does. */
static int prediction_differs(
	const struct job *j, const struct outcome *o, enum dtype dtype, double close)
{
	struct job learnt = *j;
	auto_call(engine_close) struct engine *e = NULL;
	auto_free float *logits = NULL;

	learnt.params = o->params;
	e = open_engine(&learnt, &backend_onednn, dtype, ENGINE_PREDICTS);
	assert_int_equal(engine_set(e, ENGINE_STATES, o->states, NULL), 0);
	logits = logits_of(&learnt, e);
	return differ(j, "logits of what only predicts", logits, o->after,
		(size_t)(j->m->rows * j->net->classes), close);
}

static int same_bits(const struct job *j, enum dtype dtype, const struct outcome *first)
{
	auto_call(outcome_done) struct outcome again = train(j, &backend_onednn, dtype);

	return memcmp(first->params, again.params, j->net->params * sizeof(float)) == 0;
}

static int has_bf16(const struct job *j)
{
	struct engine_config c = { .batch = 1, .threads = 1, .dtype = DTYPE_BF16 };
	auto_call(engine_close) struct engine *e = NULL;

	return backend_onednn.open(j->net->layers, j->net->n, &c, &e, NULL) == 0;
}

static int network_fails(uint64_t seed)
{
	struct made m;
	auto_call(net_free) struct net *net = make_net(seed, &m);
	auto_call(job_done) struct job j = { DTYPE_F32 };
	auto_call(outcome_done) struct outcome want = { NULL }, got = { NULL }, half = { NULL };

	make_job(net, &m, &j);
	want = train(&j, &backend_reference, DTYPE_F32);
	got = train(&j, &backend_onednn, DTYPE_F32);
	if (outcomes_differ(&j, &got, &want, CLOSE, 1) ||
		prediction_differs(&j, &got, DTYPE_F32, CLOSE))
		return 1;
	if (!same_bits(&j, DTYPE_F32, &got)) {
		tell(&j, "the bits of two runs", NULL, 1);
		return 1;
	}
	if (!has_bf16(&j))
		return 0;
	j.dtype = DTYPE_BF16;
	half = train(&j, &backend_onednn, DTYPE_BF16);
	return outcomes_differ(&j, &half, &want, CLOSE_BF16, 0) ||
		prediction_differs(&j, &half, DTYPE_BF16, CLOSE_BF16);
}

static uint64_t first_seed = 1;
static int seeds = 60;

static void networks_made_by_chance_are_computed_as_reference_does(void **state)
{
	int failed = 0;

	for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)seeds; seed++)
		if (network_fails(seed)) {
			print_message("seed %llu\n", (unsigned long long)seed);
			failed++;
		}
	assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_made_by_chance_are_computed_as_reference_does),
	};

	if (argc == 3) {
		first_seed = strtoull(argv[1], NULL, 10);
		seeds = atoi(argv[2]);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
