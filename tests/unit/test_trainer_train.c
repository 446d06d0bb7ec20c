#include "trainer_net.h"

#include "config.h"
#include "model/checkpoint.h"
#include "train/cpus.h"
#include "train/train.h"

#include <limits.h>

/* --- networks ------------------------------------------------------------------ */

static void the_reference_network_is_that_of_the_tutorial(void **state)
{
	auto_call(net_free) struct net *net = NULL;
	auto_free float *params = NULL;
	double sum = 0, squares = 0;
	const struct layer *fc1;

	assert_int_equal(net_reference(shape3(1, 28, 28), 10, 0.5f, &net, NULL), 0);
	assert_int_equal(net->params, 1663370);
	assert_int_equal(net_check_batch(net, 65536, NULL), 0);
	assert_int_equal(net_check_batch(net, 100000, NULL), -EINVAL);
	params = xcalloc(net->params, sizeof(float));
	net_init_params(net, 1, params);
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		float bias = strcmp(l->name, "conv1") == 0 ? 0 : 0.1f;

		for (size_t k = 0; k < l->biases; k++)
			assert_true(params[l->bias_at + k] == bias);
		assert_int_equal(l->decay, l->kind == LAYER_DENSE);
	}
	fc1 = &net->layers[6];
	assert_string_equal(fc1->name, "fc1");
	for (size_t k = 0; k < fc1->weights; k++) {
		double w = params[fc1->weight_at + k];

		assert_true(fabs(w) <= 0.2f);
		sum += w;
		squares += w * w;
	}
	/* A normal distribution cut at 2 deviations keeps 0.87963 of its deviation. */
	assert_true(fabs(sum / (double)fc1->weights) < 3e-4);
	assert_true(fabs(sqrt(squares / (double)fc1->weights) - 0.087963) < 2e-4);
}

/* --- random numbers -------------------------------------------------------------- */

static void xoshiro256_gives_the_numbers_of_its_authors(void **state)
{
	/* From xoshiro256starstar.c (prng.di.unimi.it) started with the state 1, 2, 3, 4. */
	static const uint64_t want[] = { 11520, 0, 1509978240, 1215971899390074240 };
	struct rng r = { { 1, 2, 3, 4 } };

	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_true(rng_next(&r) == want[i]);
}

static void a_shuffle_is_a_permutation_that_its_stream_alone_decides(void **state)
{
	uint32_t a[1000], b[1000], seen[1000] = { 0 };
	struct rng r;

	rng_init(&r, 1, RNG_SHUFFLE, 1);
	rng_shuffle(&r, a, 1000);
	rng_init(&r, 1, RNG_SHUFFLE, 2);
	rng_shuffle(&r, b, 1000);
	assert_memory_not_equal(a, b, sizeof(a));
	rng_init(&r, 1, RNG_SHUFFLE, 1);
	rng_shuffle(&r, b, 1000);
	assert_memory_equal(a, b, sizeof(a));
	for (int i = 0; i < 1000; i++)
		seen[a[i]]++;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(seen[i], 1);
}

/* --- training -------------------------------------------------------------------- */

#define STEPS 20

struct curve {
	double loss[STEPS];
	int epochs, saved;
	volatile sig_atomic_t stop_at, stop;
};

static void record(void *ctx, const struct train_state *s)
{
	struct curve *c = ctx;

	if (s->moment == TRAIN_STEPPED) {
		c->loss[s->step - 1] = s->loss;
		if (c->stop_at && s->step == (uint64_t)c->stop_at)
			c->stop = SIGTERM;
	}
	c->epochs += s->moment == TRAIN_EPOCH_ENDED;
	c->saved += s->moment == TRAIN_SAVED;
}

static struct train_options small_options(const struct backend *b)
{
	struct train_options o = TRAIN_OPTIONS_INIT;

	o.backend = b;
	o.recipe.epochs = 2;
	o.recipe.batch = 16;
	o.recipe.validation = 20;
	return o;
}

/* 20 steps of the reference network on made-up images of 8x8: two epochs of ten. */
static int train_small(
	struct train_options *o, struct curve *c, struct train_state *end, struct mlr_error *err)
{
	auto_call(dataset_done) struct dataset data = make_dataset(20 + 165, 50, 8, 4);
	auto_call(net_free) struct net *net = NULL;

	assert_int_equal(net_reference(shape3(1, 8, 8), 4, 0.5f, &net, NULL), 0);
	o->stop = &c->stop;
	return train_run(o, net, &data, record, c, end, err);
}

/*
 * Recorded with the backend reference. What may move the last digits is libm's log() in the initial
 * weights and the order of sums: hence one part in a thousand.
 */
static void assert_recorded_curve(const struct curve *c)
{
	static const struct {
		int step;
		double loss;
	} want[] = { { 1, 1.5633747 }, { 5, 1.5460333 }, { 10, 1.5238077 }, { 20, 1.0372237 } };

	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!(fabs(c->loss[want[i].step - 1] / want[i].loss - 1) < 1e-3))
			fail_msg("step %d: loss %.7f, recorded %.7f", want[i].step,
				c->loss[want[i].step - 1], want[i].loss);
}

static void a_short_run_of_reference_follows_its_recorded_losses(void **state)
{
	struct train_options o = small_options(&backend_reference);
	struct curve c = { { 0 } };
	struct train_state end;

	assert_int_equal(train_small(&o, &c, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_TESTED);
	assert_int_equal(end.step, STEPS);
	assert_int_equal(c.epochs, 2);
	assert_recorded_curve(&c);
	assert_true(end.test_error >= 0 && end.validation_error >= 0);
}

#if HAVE_ONEDNN

static void a_short_run_of_onednn_follows_the_same_losses(void **state)
{
	struct train_options o = small_options(&backend_onednn);
	struct curve c = { { 0 } };
	struct train_state end;

	o.threads = 2;
	assert_int_equal(train_small(&o, &c, &end, NULL), 0);
	assert_recorded_curve(&c);
}

static void the_same_seed_gives_the_same_losses_and_another_gives_others(void **state)
{
	struct train_options o = small_options(&backend_onednn);
	struct curve a = { { 0 } }, b = { { 0 } }, other = { { 0 } };
	struct train_state end;

	o.threads = 2;
	assert_int_equal(train_small(&o, &a, &end, NULL), 0);
	assert_int_equal(train_small(&o, &b, &end, NULL), 0);
	assert_memory_equal(a.loss, b.loss, sizeof(a.loss));
	o.seed = 2;
	assert_int_equal(train_small(&o, &other, &end, NULL), 0);
	assert_memory_not_equal(a.loss, other.loss, sizeof(a.loss));
}

#endif

static void a_stopped_run_writes_its_checkpoint_and_is_no_failure(void **state)
{
	struct train_options o = small_options(backend_find("auto"));
	auto_call(checkpoint_done) struct checkpoint at = { 0 };
	struct curve c = { .stop_at = 13 };
	struct train_state end;

	o.checkpoint = in_test_dir("stopped");
	assert_int_equal(train_small(&o, &c, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_INTERRUPTED);
	assert_int_equal(end.step, 13);
	assert_int_equal(c.saved, 2); /* after the first epoch and at the end */
	assert_int_equal(checkpoint_read(in_test_dir("stopped"), &at, NULL), 0);
	assert_true(at.step == 13 && at.epochs_done == 1 && at.batch == 16);
}

static void a_loss_that_is_no_number_ends_training_and_names_the_step(void **state)
{
	struct train_options o = small_options(backend_find("auto"));
	struct curve c = { { 0 } };
	struct train_state end;
	struct mlr_error err;

	o.recipe.lr = 1e5;
	o.checkpoint = in_test_dir("diverged");
	assert_int_equal(train_small(&o, &c, &end, &err), -EDOM);
	assert_non_null(strstr(err.text, "training diverged: the"));
	assert_non_null(strstr(err.text, "at step "));
	assert_int_equal(access(in_test_dir("diverged"), F_OK), -1);
}

static void a_data_set_too_small_for_validation_and_a_batch_is_refused(void **state)
{
	struct train_options o = small_options(&backend_reference);
	struct curve c = { { 0 } };
	struct train_state end;
	struct mlr_error err;

	o.recipe.validation = 180;
	assert_int_equal(train_small(&o, &c, &end, &err), -EINVAL);
	assert_non_null(strstr(err.text,
		"has 185 training images: too few for 180 of validation and one batch of 16"));
}

static void a_network_whose_checkpoint_could_not_be_read_is_refused_at_once(void **state)
{
	const struct layer layers[] = { { LAYER_DENSE, "fc1", .outputs = 32768 },
		{ LAYER_DENSE, "fc2", .outputs = 32768 }, { LAYER_DENSE, "fc3", .outputs = 32768 },
		{ LAYER_DENSE, "fc4", .outputs = 4 } };
	auto_call(dataset_done) struct dataset data = make_dataset(40, 0, 8, 4);
	auto_call(net_free) struct net *net =
		chain_net("large", shape3(1, 8, 8), layers, ARRAY_LEN(layers));
	struct train_options o = small_options(&backend_reference);
	struct curve c = { { 0 } };
	struct train_state end;
	struct mlr_error err;

	o.checkpoint = in_test_dir("large");
	assert_int_equal(train_run(&o, net, &data, record, &c, &end, &err), -EFBIG);
	assert_non_null(strstr(err.text, "network 'large' has 2149810180 parameters"));
}

static void images_too_tall_to_be_altered_are_refused(void **state)
{
	const struct layer layers[] = { { LAYER_DENSE, "fc", .outputs = 4, .sigma = 0.1f } };
	struct image_set images = { 40, xcalloc(40, 40000), xcalloc(40, sizeof(uint16_t)) };
	auto_call(dataset_done) struct dataset data = { .dir = xstrdup("tall"),
		.channels = 1,
		.height = 40000,
		.width = 1,
		.classes = 4,
		.norm = { { 127.5f }, { 255 } },
		.train = images };
	auto_call(net_free) struct net *net =
		chain_net("tall", shape3(1, 40000, 1), layers, ARRAY_LEN(layers));
	struct train_options o = small_options(&backend_reference);
	struct curve c = { { 0 } };
	struct train_state end;
	struct mlr_error err;

	o.steps = 1;
	assert_int_equal(train_run(&o, net, &data, record, &c, &end, &err), 0);
	o.recipe.augment.shift = 1;
	assert_int_equal(train_run(&o, net, &data, record, &c, &end, &err), -EINVAL);
	assert_non_null(strstr(err.text, "images of 40000x1 are too large to be altered"));
}

/* With the sanitizers, too, memory that there is not is a NULL (asan_interface.h). */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

/* A network's classes and batch are a file's to say. */
static void an_evaluation_that_memory_does_not_hold_is_refused(void **state)
{
	auto_call(dataset_done) struct dataset data = make_dataset(10, 10, 4, 4);
	struct engine engine = { .batch = INT_MAX };
	const struct evaluation_of what = { .engine = &engine,
		.data = &data,
		.set = &data.test,
		.count = 10,
		.classes = 65535,
		.threads = 1 };
	struct evaluation got;
	struct mlr_error err;

	assert_int_equal(evaluate(&what, &got, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "562941363224580 bytes of memory for logits"));
}

/* What a checkpoint holds of its data set must not change from version to version. */
static void a_data_set_has_the_same_digest_always(void **state)
{
	auto_call(dataset_done) struct dataset data = make_dataset(20, 10, 8, 4);
	auto_free char *all = train_digest(&data), *none = NULL;

	assert_string_equal(all, "77e53326c5c895b8");
	free(data.train.images);
	data.train.images = NULL;
	none = train_digest(&data);
	assert_string_equal(none, "ea487a6283ef3447");
}

/* --- threads --------------------------------------------------------------------- */

static void write_below(const char *path, const char *text)
{
	auto_free char *dir = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	assert_int_equal(file_mkdir_p(AT_FDCWD, in_test_dir(dir), 0755, NULL), 0);
	write_file(path, text, strlen(text));
}

static void threads_are_limited_by_quota_and_slurm(void **state)
{
	auto_free char *root = xasprintf("%s/root", test_dir);
	int all;

	unsetenv("SLURM_CPUS_PER_TASK");
	all = cpus_available(root); /* nothing there: the affinity mask alone */
	assert_true(all >= 1);

	write_below("root/proc/self/cgroup", "0::/a/b\n");
	write_below("root/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	assert_int_equal(cpus_available(root), all);
	write_below("root/sys/fs/cgroup/a/cpu.max",
		"50000 100000\n"); /* half a CPU, of the level above */
	assert_int_equal(cpus_available(root), 1);
	write_below("root/sys/fs/cgroup/a/cpu.max", "100100000 100000\n");
	assert_int_equal(cpus_available(root), all);

	write_below("root/proc/self/cgroup", "3:cpuset:/x\n4:cpu,cpuacct:/c\n0::/\n");
	write_below("root/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "90000\n");
	write_below("root/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
	assert_int_equal(cpus_available(root), 1);
	write_below("root/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n");
	assert_int_equal(cpus_available(root), all);

	setenv("SLURM_CPUS_PER_TASK", "1", 1);
	assert_int_equal(cpus_available(root), 1);
	setenv("SLURM_CPUS_PER_TASK", "nonsense", 1);
	assert_int_equal(cpus_available(root), all);
	unsetenv("SLURM_CPUS_PER_TASK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reference_network_is_that_of_the_tutorial),
		cmocka_unit_test(xoshiro256_gives_the_numbers_of_its_authors),
		cmocka_unit_test(a_shuffle_is_a_permutation_that_its_stream_alone_decides),
		cmocka_unit_test(a_short_run_of_reference_follows_its_recorded_losses),
#if HAVE_ONEDNN
		cmocka_unit_test(a_short_run_of_onednn_follows_the_same_losses),
		cmocka_unit_test(the_same_seed_gives_the_same_losses_and_another_gives_others),
#endif
		cmocka_unit_test(a_stopped_run_writes_its_checkpoint_and_is_no_failure),
		cmocka_unit_test(a_loss_that_is_no_number_ends_training_and_names_the_step),
		cmocka_unit_test(a_data_set_too_small_for_validation_and_a_batch_is_refused),
		cmocka_unit_test(a_network_whose_checkpoint_could_not_be_read_is_refused_at_once),
		cmocka_unit_test(images_too_tall_to_be_altered_are_refused),
		cmocka_unit_test(an_evaluation_that_memory_does_not_hold_is_refused),
		cmocka_unit_test(a_data_set_has_the_same_digest_always),
		cmocka_unit_test(threads_are_limited_by_quota_and_slurm),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
