#include "trainer_test.h"

#include "config.h"
#include "model/checkpoint.h"
#include "model/net_file.h"
#include "train/train.h"

#include <signal.h>

/* 165 images in batches of 16: ten steps an epoch, two epochs, three. */
#define STEPS 30

static const char small_net[] =
	"{\"name\":\"small\",\"layers\":["
	"{\"kind\":\"conv\",\"name\":\"c\",\"outputs\":4,\"size\":3,\"pad\":\"same\"},"
	"{\"kind\":\"batchnorm\",\"name\":\"n\"},{\"kind\":\"relu\"},"
	"{\"kind\":\"maxpool\",\"size\":2},{\"kind\":\"dropout\",\"rate\":0.3},"
	"{\"kind\":\"dense\",\"name\":\"f\",\"outputs\":\"classes\",\"decay\":1}]}";

struct log {
	double loss[STEPS];
	int stepped, epochs, saved, tested;
	uint64_t at;                /* do this after that step: */
	int sig;                    /* a signal comes */
	int save;                   /* or one that wants a checkpoint */
	const char *remove, *bring; /* or a directory goes away, or comes back */
	volatile sig_atomic_t stop, save_now;
	uint64_t images_of_test;
};

static void record(void *ctx, const struct train_state *s)
{
	struct log *l = ctx;

	l->epochs += s->moment == TRAIN_EPOCH_ENDED;
	l->saved += s->moment == TRAIN_SAVED;
	if (s->moment == TRAIN_TESTED) {
		l->tested++;
		assert_non_null(s->test);
		for (int i = 0; i < s->test->classes * s->test->classes; i++)
			l->images_of_test += s->test->confusion[i];
	}
	if (s->moment != TRAIN_STEPPED)
		return;
	l->stepped++;
	l->loss[s->step - 1] = s->loss;
	if (s->step == 5 && l->remove)
		assert_int_equal(file_remove_tree(AT_FDCWD, l->remove, NULL), 0);
	if (s->step == 15 && l->bring)
		assert_int_equal(mkdir(l->bring, 0755), 0);
	if (s->step != l->at)
		return;
	l->stop = l->sig;
	l->save_now = l->save;
}

static struct train_options options(const struct backend *b)
{
	struct train_options o = TRAIN_OPTIONS_INIT;

	o.backend = b;
	o.recipe.epochs = 2;
	o.recipe.batch = 16;
	o.recipe.validation = 20;
	o.recipe.augment = (struct augment_policy){ .shift = 1, .flip = 1 };
	return o;
}

static int run_net(const char *text, struct train_options *o, struct log *l,
	struct train_state *end, struct mlr_error *err)
{
	const struct net_wish wish = { shape3(1, 8, 8), 4, -1 };
	auto_call(dataset_done) struct dataset data = make_dataset(20 + 165, 50, 8, 4);
	auto_call(net_free) struct net *net = NULL;

	assert_int_equal(net_parse(text, strlen(text), "test", &wish, &net, NULL, NULL), 0);
	o->stop = &l->stop;
	o->save = &l->save_now;
	return train_run(o, net, &data, record, l, end, err);
}

static int run(
	struct train_options *o, struct log *l, struct train_state *end, struct mlr_error *err)
{
	return run_net(small_net, o, l, end, err);
}

/* Run with the file's checkpoint, whatever it is. */
static int go_on(const char *name, struct train_options *o, struct log *l, struct train_state *end,
	struct mlr_error *err)
{
	auto_call(checkpoint_done) struct checkpoint c = { 0 };

	assert_int_equal(checkpoint_read(in_test_dir(name), &c, NULL), 0);
	o->resume = &c;
	return run(o, l, end, err);
}

static const struct backend *backends[] = {
	&backend_reference,
#if HAVE_ONEDNN
	&backend_onednn,
#endif
};

static void a_run_stopped_at_any_step_goes_on_bit_for_bit(void **state)
{
	static const int at[] = { 1, 7, 10, 13, 19 };

	for (size_t b = 0; b < ARRAY_LEN(backends); b++) {
		struct train_options o = options(backends[b]);
		struct log whole = { .at = 0 };
		struct train_state want, got;

		assert_int_equal(run(&o, &whole, &want, NULL), 0);
		assert_int_equal(whole.stepped, 20);
		for (size_t i = 0; i < ARRAY_LEN(at); i++) {
			struct log l = { .at = (uint64_t)at[i], .sig = SIGTERM };

			o = options(backends[b]);
			o.checkpoint = in_test_dir("stopped");
			assert_int_equal(run(&o, &l, &got, NULL), 0);
			assert_int_equal(got.moment, TRAIN_INTERRUPTED);
			assert_int_equal(got.signal, SIGTERM);
			assert_int_equal(got.step, at[i]);
			l.at = 0;
			l.stop = 0;
			assert_int_equal(go_on("stopped", &o, &l, &got, NULL), 0);
			assert_int_equal(got.first_step, at[i]);
			assert_int_equal(l.stepped, 20);
			assert_memory_equal(l.loss, whole.loss, sizeof(whole.loss));
			assert_true(got.validation_error == want.validation_error);
			assert_true(got.best_error == want.best_error);
			assert_true(got.test_wrong == want.test_wrong);
			assert_int_equal(l.epochs, 2);
		}
	}
}

static void a_run_goes_on_with_another_backend_within_rounding(void **state)
{
	struct train_options o = options(backends[0]);
	struct log whole = { .at = 0 }, l = { .at = 8, .sig = SIGTERM };
	struct train_state end;

	if (ARRAY_LEN(backends) == 1)
		return;
	assert_int_equal(run(&o, &whole, &end, NULL), 0);
	o.checkpoint = in_test_dir("other");
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	l.stop = 0;
	o.backend = backends[ARRAY_LEN(backends) - 1];
	assert_int_equal(go_on("other", &o, &l, &end, NULL), 0);
	for (int i = 0; i < 20; i++)
		assert_true(fabs(l.loss[i] / whole.loss[i] - 1) < 1e-3);
}

static void a_finished_run_goes_on_with_more_epochs_or_tells_its_result_again(void **state)
{
	struct train_options o = options(&backend_reference);
	struct log three = { .at = 0 }, l = { .at = 0 };
	struct train_state end, again;

	o.recipe.epochs = 3;
	assert_int_equal(run(&o, &three, &end, NULL), 0);
	o = options(&backend_reference);
	o.checkpoint = in_test_dir("more");
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(go_on("more", &o, &l, &again, NULL), 0);
	assert_int_equal(l.stepped, 20);
	assert_int_equal(again.test_wrong, end.test_wrong);
	o.recipe.epochs = 3;
	assert_int_equal(go_on("more", &o, &l, &again, NULL), 0);
	assert_int_equal(l.stepped, 30);
	assert_memory_equal(l.loss, three.loss, sizeof(three.loss));
}

static void assert_contradicts(struct train_options o, const char *net, const char *says)
{
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	struct log l = { .at = 0 };
	struct train_state end;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(checkpoint_read(in_test_dir("mine"), &c, NULL), 0);
	o.resume = &c;
	o.checkpoint = NULL;
	if (run_net(net, &o, &l, &end, &err) != -EINVAL || !strstr(err.text, says))
		fail_msg("%s", err.text);
	assert_non_null(strstr(err.text, "\nhint: "));
}

static void options_that_contradict_the_checkpoint_are_refused(void **state)
{
	struct train_options o = options(&backend_reference), other;
	struct log l = { .at = 3, .sig = SIGTERM };
	struct train_state end;
	const char *wider = "{\"name\":\"small\",\"layers\":["
			    "{\"kind\":\"dense\",\"name\":\"f\",\"outputs\":\"classes\"}]}";

	o.checkpoint = in_test_dir("mine");
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	other = o;
	other.seed = 9;
	assert_contradicts(other, small_net, "has seed 1, but this run has 9");
	other = o;
	other.recipe.batch = 8;
	assert_contradicts(other, small_net, "has batch 16, but this run has 8");
	other = o;
	other.recipe.validation = 21;
	assert_contradicts(other, small_net, "has validation images 20, but this run has 21");
	assert_contradicts(o, wider, "is of another network: its layer 1 'c' is not as");
}

static void another_data_set_is_refused(void **state)
{
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	struct train_options o = options(&backend_reference);
	struct log l = { .at = 3, .sig = SIGTERM };
	struct train_state end;
	struct mlr_error err = MLR_ERROR_INIT;

	o.checkpoint = in_test_dir("data");
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(checkpoint_read(in_test_dir("data"), &c, NULL), 0);
	c.digest[0] ^= 1;
	o.resume = &c;
	assert_int_equal(run(&o, &l, &end, &err), -EINVAL);
	assert_non_null(strstr(err.text, "was trained with other data"));
}

static void sigusr1_saves_and_training_stops_or_goes_on(void **state)
{
	struct train_options o = options(&backend_reference);
	struct log stops = { .at = 4, .sig = SIGUSR1 }, goes_on = { .at = 4, .save = SIGUSR1 };
	struct train_state end;

	o.checkpoint = in_test_dir("usr1");
	assert_int_equal(run(&o, &stops, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_INTERRUPTED);
	assert_int_equal(end.signal, SIGUSR1);
	assert_int_equal(stops.saved, 1);

	assert_int_equal(run(&o, &goes_on, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_TESTED);
	assert_int_equal(goes_on.saved, 3); /* and at each epoch's end */
}

static void checkpoints_come_every_so_many_steps(void **state)
{
	struct train_options o = options(&backend_reference);
	struct log l = { .at = 0 };
	struct train_state end;

	o.checkpoint = in_test_dir("often");
	o.save_steps = 3;
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(l.saved, 6 + 2); /* 3, 6, 9, 12, 15, 18, and 10, 20 */
}

static void training_ends_once_the_target_is_reached_and_stays_so(void **state)
{
	struct train_options o = options(&backend_reference);
	struct log l = { .at = 0 };
	struct train_state end;

	o.target_accuracy = 1e-9;
	o.checkpoint = in_test_dir("target");
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_TESTED);
	assert_true(end.reached && end.step == 10 && l.tested == 1);
	assert_int_equal(l.images_of_test, 50);
	assert_int_equal(go_on("target", &o, &l, &end, NULL), 0);
	assert_true(end.reached && end.step == 10);

	o = options(&backend_reference);
	o.recipe.validation = 0; /* the test images decide */
	o.target_accuracy = 1e-9;
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_true(end.reached && end.epochs_done == 1);

	o.target_accuracy = 1;
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_true(!end.reached || end.test_error == 0);
}

static void a_deadline_ends_training_with_a_checkpoint(void **state)
{
	struct train_options o = options(&backend_reference);
	struct log l = { .at = 0 };
	struct train_state end;

	o.checkpoint = in_test_dir("late");
	o.max_seconds = 1; /* and began, by the clock, when the machine did */
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_INTERRUPTED);
	assert_int_equal(end.signal, 0);
	assert_int_equal(l.stepped, 0);
	assert_int_equal(access(in_test_dir("late"), F_OK), 0);
}

static void the_best_is_kept_apart(void **state)
{
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	struct train_options o = options(&backend_reference);
	struct log l = { .at = 0 };
	struct train_state end;

	o.best = in_test_dir("best");
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_true(l.saved >= 1);
	assert_int_equal(checkpoint_read(in_test_dir("best"), &c, NULL), 0);
	assert_true(c.best_error == end.best_error && end.best_error >= 0);
}

static void a_checkpoint_that_cannot_be_written_for_a_while_is_written_later(void **state)
{
	auto_free char *dir = xasprintf("%s/gone", test_dir), *file = xasprintf("%s/c", dir);
	struct train_options o = options(&backend_reference);
	struct log l = { .remove = dir, .bring = dir };
	struct train_state end;
	struct mlr_error err = MLR_ERROR_INIT;

	o.checkpoint = file;
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(end.moment, TRAIN_TESTED);
	assert_int_equal(l.saved, 1); /* not after step 10, but after 20 */
	assert_int_equal(access(file, F_OK), 0);

	l.bring = NULL; /* and if it never can be, the run says so */
	assert_int_equal(run(&o, &l, &end, &err), -ENOENT);
	assert_non_null(strstr(err.text, "at the end, step 20: write checkpoint"));
}

/* --- several steps a call ------------------------------------------------------------------- */

static int most, calls;

static int step_many(struct engine *e, const struct batch *b, const struct step *s, int n,
	struct step_result *ret, struct mlr_error *err)
{
	calls++;
	most = n > most ? n : most;
	assert_true(n <= 4);
	return backend_reference.step(e, b, s, n, ret, err);
}

static struct backend many;

static int open_many(const struct layer *layers, size_t n, const struct engine_config *c,
	struct engine **ret, struct mlr_error *err)
{
	int r = backend_reference.open(layers, n, c, ret, err);

	if (r == 0) {
		(*ret)->backend = &many;
		(*ret)->steps_at_once = 4;
	}
	return r;
}

static void several_steps_a_call_give_the_losses_of_one_a_call(void **state)
{
	struct train_options o = options(&backend_reference);
	struct log one = { .at = 0 }, l = { .at = 0 };
	struct train_state end;

	assert_int_equal(run(&o, &one, &end, NULL), 0);
	many = backend_reference;
	many.open = open_many;
	many.step = step_many;
	o.backend = &many;
	most = calls = 0;
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_memory_equal(l.loss, one.loss, sizeof(one.loss));
	assert_int_equal(most, 4);
	assert_int_equal(calls, 2 * 3); /* 4, 4 and 2 steps: none goes beyond an epoch */

	o.checkpoint = in_test_dir("many");
	o.save_steps = 5;
	calls = 0;
	assert_int_equal(run(&o, &l, &end, NULL), 0);
	assert_int_equal(calls, 2 * 4); /* 4, 1, 4 and 1 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_stopped_at_any_step_goes_on_bit_for_bit),
		cmocka_unit_test(a_run_goes_on_with_another_backend_within_rounding),
		cmocka_unit_test(a_finished_run_goes_on_with_more_epochs_or_tells_its_result_again),
		cmocka_unit_test(options_that_contradict_the_checkpoint_are_refused),
		cmocka_unit_test(another_data_set_is_refused),
		cmocka_unit_test(sigusr1_saves_and_training_stops_or_goes_on),
		cmocka_unit_test(checkpoints_come_every_so_many_steps),
		cmocka_unit_test(training_ends_once_the_target_is_reached_and_stays_so),
		cmocka_unit_test(a_deadline_ends_training_with_a_checkpoint),
		cmocka_unit_test(the_best_is_kept_apart),
		cmocka_unit_test(a_checkpoint_that_cannot_be_written_for_a_while_is_written_later),
		cmocka_unit_test(several_steps_a_call_give_the_losses_of_one_a_call),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
