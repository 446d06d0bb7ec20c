#include "trainer_net.h"

#include "dist/dist.h"

/*
 * What ranks do together. By itself this program is one rank, alone; tests/cli/mltrain-ranks.bats
 * runs it under mpirun with several. Every rank runs the same tests in the same order.
 */
static struct dist *d;

static int join_ranks(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (getenv("OMPI_COMM_WORLD_SIZE"))
		setenv("MLTRAIN_PLUGINS", "bin", 0);
	if (dist_open(&d, &err) < 0) {
		print_error("%s\n", err.text);
		return -1;
	}
	return 0;
}

static int leave_ranks(void **state)
{
	dist_close(&d);
	return 0;
}

#define world (&d->exchange)

/* A small whole number, so that sums of it are exact; another one for every rank, step and
 * place. */
static float value(int rank, int step, size_t i)
{
	return (float)((rank + 1) * (int)(i % 1021 + 1) + step);
}

static float value_of_all(int step, size_t i)
{
	float sum = 0;

	for (int r = 0; r < d->ranks; r++)
		sum += value(r, step, i);
	return sum;
}

/* One step: parts of these sizes in the order of a backward pass, the last in memory first. gap
 * floats lie between them, which must stay as they are. */
static void sum_parts(const size_t *size, size_t n, size_t gap, int step, float *x, size_t total)
{
	size_t end = total;

	for (size_t i = 0; i < total; i++)
		x[i] = value(d->rank, step, i);
	for (size_t p = 0; p < n; p++) {
		end -= size[p];
		world->ready(world->ctx, x + end, size[p]);
		world->poll(world->ctx);
		end -= gap;
	}
	assert_int_equal(world->wait(world->ctx, NULL), 0);
}

static void check_parts(
	const size_t *size, size_t n, size_t gap, int step, const float *x, size_t total)
{
	size_t end = total;

	for (size_t p = 0; p < n; p++) {
		for (size_t i = end - size[p]; i < end; i++)
			if (x[i] != value_of_all(step, i))
				fail_msg("rank %d, step %d, part %zu, float %zu: %g, not %g",
					d->rank, step, p, i, (double)x[i],
					(double)value_of_all(step, i));
		end -= size[p];
		for (size_t i = end - gap; i < end; i++)
			assert_true(x[i] == value(d->rank, step, i));
		end -= gap;
	}
}

static void sum_and_check(const size_t *size, size_t n, size_t gap, int steps)
{
	size_t total = 0;
	auto_free float *x = NULL;

	for (size_t p = 0; p < n; p++)
		total += size[p] + gap;
	x = xcalloc(total, sizeof(*x));
	for (int step = 0; step < steps; step++) {
		sum_parts(size, n, gap, step, x, total);
		check_parts(size, n, gap, step, x, total);
	}
}

/* The reference network's: fc2, fc1, conv2, conv1, each bias before its weights. */
static const size_t reference_net[] = { 10, 5120, 512, 1605632, 64, 51200, 32, 800 };

static void gradients_are_summed_where_they_lie(void **state)
{
	sum_and_check(reference_net, ARRAY_LEN(reference_net), 0, 20);
}

static void gradients_that_lie_apart_are_summed_and_nothing_between(void **state)
{
	sum_and_check(reference_net, ARRAY_LEN(reference_net), 16, 20);
}

static void tiny_odd_and_empty_parts_are_summed(void **state)
{
	static const size_t size[] = { 1, 0, 1, 3, 0, 65535, 1, 65536, 7, 65537, 0, 2 };

	sum_and_check(size, ARRAY_LEN(size), 1, 30);
}

static void one_float_and_nothing_at_all_are_summed(void **state)
{
	static const size_t one[] = { 1 };

	sum_and_check(one, 1, 0, 5);
	assert_int_equal(world->wait(world->ctx, NULL), 0);
	sum_and_check(one, 1, 3, 5);
}

static void a_thousand_parts_of_changing_sizes_are_summed(void **state)
{
	size_t size[1000];

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_LEN(size); i++)
			size[i] = i * (size_t)(round + 7) % 911;
		sum_and_check(size, ARRAY_LEN(size), 2, 4);
	}
}

static void steps_may_grow_and_shrink(void **state)
{
	for (size_t n = 1; n <= ARRAY_LEN(reference_net); n++)
		sum_and_check(reference_net, n, 0, 2);
	for (size_t n = ARRAY_LEN(reference_net); n; n--)
		sum_and_check(reference_net, n, 4, 2);
}

/* Sums of floats depend on their order: what ranks get must be the same bits nevertheless. */
static void every_rank_gets_the_same_bits_each_time(void **state)
{
	size_t n = 300007;
	auto_free float *first = NULL;

	for (int i = 0; i < 5; i++) {
		auto_free float *x = random_floats((uint64_t)d->rank + 1, n);

		world->ready(world->ctx, x + 1000, n - 1000);
		world->ready(world->ctx, x, 1000);
		assert_int_equal(world->wait(world->ctx, NULL), 0);
		assert_int_equal(dist_agree(d, "sums", x, n * sizeof(*x), NULL), 0);
		if (first)
			assert_memory_equal(first, x, n * sizeof(*x));
		else
			first = take_ptr(&x);
	}
}

static void doubles_are_summed_at_once(void **state)
{
	double x[1000];

	for (int step = 0; step < 50; step++) {
		for (int i = 0; i < 1000; i++)
			x[i] = d->rank + i + 0.5;
		assert_int_equal(world->sum(world->ctx, x, 1000, NULL), 0);
		for (int i = 0; i < 1000; i++)
			assert_true(x[i] == d->ranks * (i + 0.5) + d->ranks * (d->ranks - 1) / 2.0);
	}
}

/* As batch norm does it: a sum in the middle of a backward pass whose gradients are under way. */
static void doubles_are_summed_while_gradients_are_under_way(void **state)
{
	auto_free float *x = xcalloc(400000, sizeof(*x));

	for (int step = 0; step < 10; step++) {
		double y = d->rank;

		for (size_t i = 0; i < 400000; i++)
			x[i] = value(d->rank, step, i);
		world->ready(world->ctx, x + 200000, 200000);
		assert_int_equal(world->sum(world->ctx, &y, 1, NULL), 0);
		assert_true(y == d->ranks * (d->ranks - 1) / 2.0);
		world->ready(world->ctx, x, 100000);
		world->ready(world->ctx, x + 100000, 100000);
		assert_int_equal(world->wait(world->ctx, NULL), 0);
		for (size_t i = 0; i < 400000; i++)
			assert_true(x[i] == value_of_all(step, i));
	}
}

static void rank_0_tells_all(void **state)
{
	char words[100];

	snprintf(words, sizeof(words), "words of rank %d", d->rank);
	assert_int_equal(world->broadcast(world->ctx, words, sizeof(words), NULL), 0);
	assert_string_equal(words, "words of rank 0");
}

static void rank_0_hears_of_all(void **state)
{
	auto_free int64_t *all = d->rank ? NULL : xcalloc((size_t)d->ranks * 3, sizeof(*all));
	int64_t mine[3] = { d->rank, 7, -d->rank };

	assert_int_equal(d->ops->gather(d, mine, sizeof(mine), all, NULL), 0);
	for (int r = 0; all && r < d->ranks; r++) {
		assert_int_equal(all[3 * r], r);
		assert_int_equal(all[3 * r + 1], 7);
		assert_int_equal(all[3 * r + 2], -r);
	}
}

static void a_rank_that_differs_is_named_to_all(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char words[100], expected[64];

	strcpy(words, "the same");
	assert_int_equal(dist_agree(d, "options", words, 8, &err), 0);
	if (d->ranks == 1)
		return;
	if (d->rank == d->ranks - 1)
		words[7] = 'E';
	snprintf(expected, sizeof(expected), "ranks differ in options: rank %d on '", d->ranks - 1);
	assert_int_equal(dist_agree(d, "options", words, 8, &err), -EPROTO);
	assert_non_null(strstr(err.text, expected));
	/* not only other bytes, but more of them */
	assert_int_equal(dist_agree(d, "options", "aaaa", d->rank ? 3 : 4, &err), -EPROTO);
	assert_non_null(strstr(err.text, "rank 1 on '"));
}

static void ranks_are_numbered(void **state)
{
	double x[2] = { d->rank, d->rank * d->rank };
	int n = d->ranks;

	assert_int_equal(world->sum(world->ctx, x, 2, NULL), 0);
	assert_true(x[0] == n * (n - 1) / 2 && x[1] == (n - 1) * n * (2 * n - 1) / 6);
	assert_int_equal(world->rank, d->rank);
	assert_int_equal(world->ranks, d->ranks);
	assert_true(d->local_rank >= 0 && d->local_rank < d->local_ranks);
	assert_true(d->local_ranks <= d->ranks);
	if (getenv("OMPI_COMM_WORLD_SIZE"))
		assert_int_equal(d->ranks, atoi(getenv("OMPI_COMM_WORLD_SIZE")));
}

#define GLOBAL_BATCH 12 /* by 1, 2, 3 and 4 ranks */
#define SIDE         10
#define CLASSES      4
#define STEPS        5

/* Every kind of layer that ranks must agree about: batch norm's statistics are those of all rows,
 * dropout's masks go by the global row, and decay is counted once. */
static struct net *net_of_all_kinds(void)
{
	static const struct layer layers[] = {
		{ .kind = LAYER_CONV,
			.name = "conv1",
			.outputs = 6,
			.size = 3,
			.stride = 1,
			.pad = 1,
			.sigma = 0.2f,
			.no_bias = 1 },
		{ .kind = LAYER_BATCHNORM, .name = "norm1", .epsilon = 1e-5f, .momentum = 0.1f },
		{ .kind = LAYER_RELU, .name = "relu1" },
		{ .kind = LAYER_MAXPOOL, .name = "pool1", .size = 2, .stride = 2 },
		{ .kind = LAYER_CONV,
			.name = "conv2",
			.outputs = 8,
			.size = 3,
			.stride = 1,
			.pad = 1,
			.sigma = 0.2f,
			.bias = 0.1f },
		{ .kind = LAYER_RELU, .name = "relu2" },
		{ .kind = LAYER_DENSE,
			.name = "fc1",
			.outputs = 33,
			.sigma = 0.1f,
			.bias = 0.1f,
			.decay = 1 },
		{ .kind = LAYER_RELU, .name = "relu3" },
		{ .kind = LAYER_DROPOUT, .name = "dropout", .rate = 0.5f },
		{ .kind = LAYER_DENSE,
			.name = "fc2",
			.outputs = CLASSES,
			.sigma = 0.1f,
			.decay = 1 },
	};

	return chain_net("all kinds", shape3(1, SIDE, SIDE), layers, ARRAY_LEN(layers));
}

struct trained {
	float *params, *states;
	double loss[STEPS];
};

/* Rows from..from+rows-1 of every global batch. */
static struct trained train_rows(const struct backend *backend, const struct net *net,
	const struct image_set *images, int from, int rows, const struct exchange *with)
{
	struct engine_config config = { .batch = rows,
		.threads = 1,
		.use = ENGINE_TRAINS,
		.norm = { { 127.5f }, { 255 } },
		.exchange = with };
	struct trained t = { xcalloc(net->params, sizeof(float)),
		xcalloc(net->states ? net->states : 1, sizeof(float)) };
	auto_call(engine_close) struct engine *e = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	if (backend->open(net->layers, net->n, &config, &e, &err) < 0)
		fail_msg("%s: %s", backend->name, err.text);
	net_init_params(net, 1, t.params);
	assert_int_equal(engine_set(e, ENGINE_PARAMS, t.params, &err), 0);
	for (int i = 0; i < STEPS; i++) {
		size_t first = (size_t)(i * GLOBAL_BATCH + from);
		struct batch b = { .rows = rows,
			.images = images->images + first * SIDE * SIDE,
			.labels = images->labels + first };
		struct step s = {
			.lr = 0.05f, .momentum = 0.9f, .l2 = 1e-3f, .seed = 3, .number = (uint64_t)i
		};
		struct step_result got;

		if (engine_step(e, &b, &s, 1, &got, &err) < 0)
			fail_msg("%s: %s", backend->name, err.text);
		t.loss[i] = got.cross_entropy;
		if (with)
			assert_int_equal(with->sum(with->ctx, &t.loss[i], 1, NULL), 0);
		t.loss[i] = t.loss[i] / (with ? with->ranks : 1) + got.penalty;
	}
	assert_int_equal(engine_get(e, ENGINE_PARAMS, t.params, &err), 0);
	if (net->states)
		assert_int_equal(engine_get(e, ENGINE_STATES, t.states, &err), 0);
	return t;
}

static void training_is_that_of_one_rank_with(const char *name)
{
	const struct backend *backend = backend_find(name);
	auto_call(net_free) struct net *net = net_of_all_kinds();
	struct image_set images = make_images(1, STEPS * GLOBAL_BATCH, SIDE, CLASSES);
	int rows = GLOBAL_BATCH / d->ranks;
	struct trained one, all;

	if (!backend || GLOBAL_BATCH % d->ranks)
		return;
	one = train_rows(backend, net, &images, 0, GLOBAL_BATCH, NULL);
	all = train_rows(backend, net, &images, d->rank * rows, rows, world);
	for (int i = 0; i < STEPS; i++)
		if (fabs(all.loss[i] - one.loss[i]) > 1e-5)
			fail_msg("%s, step %d: loss %.8f by %d ranks, %.8f by one", name, i,
				all.loss[i], d->ranks, one.loss[i]);
	if (distance(all.params, one.params, net->params) > 1e-5)
		fail_msg("%s: parameters by %d ranks are %g from those of one", name, d->ranks,
			distance(all.params, one.params, net->params));
	if (distance(all.states, one.states, net->states) > 1e-5)
		fail_msg("%s: running statistics by %d ranks are %g from those of one", name,
			d->ranks, distance(all.states, one.states, net->states));
	assert_int_equal(
		dist_agree(d, "parameters", all.params, net->params * sizeof(float), NULL), 0);
	free(one.params);
	free(one.states);
	free(all.params);
	free(all.states);
	free(images.images);
	free(images.labels);
}

static void reference_trains_on_many_ranks_as_on_one(void **state)
{
	training_is_that_of_one_rank_with("reference");
}

static void onednn_trains_on_many_ranks_as_on_one(void **state)
{
	training_is_that_of_one_rank_with("onednn");
}

static void onednn_does_so_where_the_ranks_lay_gradients_out_otherwise(void **state)
{
	d->exchange.plain = 1;
	training_is_that_of_one_rank_with("onednn");
	d->exchange.plain = 0;
}

/* Alone, a failure is told and the program goes on to its own exit. */
static void one_that_is_alone_is_not_ended(void **state)
{
	dist_fail(NULL, 1);
	if (d->ranks == 1)
		dist_fail(d, 1);
}

/* As GPUs' sums are waited for: long enough to look after the other ranks. */
static void who_idles_among_ranks_that_live_goes_on(void **state)
{
	unsigned turns = 0;
	double all = 1;

	for (int i = 0; i < 10000; i++)
		assert_int_equal(world->idle(world->ctx, &turns, NULL), 0);
	assert_int_equal(world->sum(world->ctx, &all, 1, NULL), 0); /* nobody ends before */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_are_numbered),
		cmocka_unit_test(gradients_are_summed_where_they_lie),
		cmocka_unit_test(gradients_that_lie_apart_are_summed_and_nothing_between),
		cmocka_unit_test(tiny_odd_and_empty_parts_are_summed),
		cmocka_unit_test(one_float_and_nothing_at_all_are_summed),
		cmocka_unit_test(a_thousand_parts_of_changing_sizes_are_summed),
		cmocka_unit_test(steps_may_grow_and_shrink),
		cmocka_unit_test(every_rank_gets_the_same_bits_each_time),
		cmocka_unit_test(doubles_are_summed_at_once),
		cmocka_unit_test(doubles_are_summed_while_gradients_are_under_way),
		cmocka_unit_test(rank_0_tells_all),
		cmocka_unit_test(rank_0_hears_of_all),
		cmocka_unit_test(a_rank_that_differs_is_named_to_all),
		cmocka_unit_test(who_idles_among_ranks_that_live_goes_on),
		cmocka_unit_test(reference_trains_on_many_ranks_as_on_one),
		cmocka_unit_test(onednn_trains_on_many_ranks_as_on_one),
		cmocka_unit_test(onednn_does_so_where_the_ranks_lay_gradients_out_otherwise),
		cmocka_unit_test(one_that_is_alone_is_not_ended),
	};

	return cmocka_run_group_tests_name("trainer_dist", tests, join_ranks, leave_ranks);
}
