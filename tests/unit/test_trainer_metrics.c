#include "trainer_test.h"

#include "metrics/live.h"
#include "metrics/usage.h"
#include "metrics/records.h"
#include "metrics/tfevents.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

/* --- rates ----------------------------------------------------------------------- */

static void a_resumed_run_counts_its_own_steps_alone(void **state)
{
	struct train_state s = { .step = 1000,
		.steps = 2000,
		.epoch_steps = 500,
		.epochs_done = 2,
		.step_seconds = 50,
		.evaluate_seconds = 4 };
	struct rate r;

	rate_start(&r, &s);
	assert_true(rate_mean(&r, &s, 64) == 0 && rate_smooth(&r) == 0);
	s.step = 1500;
	s.step_seconds = 60; /* 50 steps a second */
	s.epochs_done = 3;
	s.evaluate_seconds = 7;
	rate_step(&r, &s, 64);
	assert_true(fabs(rate_mean(&r, &s, 64) - 50 * 64) < 1e-6);
	assert_true(fabs(rate_left(&r, &s) - (10 + 3)) < 1e-6);
}

static void the_smoothed_rate_follows_a_change_within_seconds(void **state)
{
	struct train_state s = { .steps = 1000, .epoch_steps = 1000 };
	struct rate r;

	rate_start(&r, &s);
	for (int i = 0; i < 200; i++) { /* 20 s at 10 steps a second */
		s.step++;
		s.step_seconds += 0.1;
		rate_step(&r, &s, 10);
	}
	assert_true(fabs(rate_smooth(&r) - 100) < 1e-6);
	for (int i = 0; i < 20; i++) { /* 20 s at one */
		s.step++;
		s.step_seconds += 1;
		rate_step(&r, &s, 10);
	}
	assert_true(rate_smooth(&r) < 13 && rate_mean(&r, &s, 10) > 50);
}

/* --- lines for people ----------------------------------------------------------------- */

/* What live_tell() says of an engine at a run's start. To free(). */
static char *first_lines(const struct engine *e)
{
	const struct net net = { .name = "n", .input = { 3, { 1, 28, 28 } }, .n = 2 };
	struct train_state s = { .moment = TRAIN_STARTED, .net = &net, .engine = e };
	int before = dup(STDERR_FILENO);
	char *text = NULL;
	size_t len;
	struct live l;

	assert_non_null(freopen(in_test_dir("said"), "w", stderr));
	live_init(&l);
	live_tell(&l, &s, 64);
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("said"), 4096, &text, &len, NULL), 0);
	return text;
}

static void the_first_line_names_the_device(void **state)
{
	const struct backend cuda = { .name = "cuda" };
	struct engine e = { .backend = &cuda, .dtype = DTYPE_BF16, .device = "NVIDIA H200" };
	auto_free char *said = first_lines(&e);

	assert_non_null(strstr(said, "backend cuda (bf16) on NVIDIA H200, 0.0 MB\n"));
}

/* --- the tutorial's lines -------------------------------------------------------------- */

static void the_tutorials_lines_are_as_the_tutorial_prints_them(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct tflog l = { .to = f };
	struct train_state s = {
		.moment = TRAIN_STARTED, .train_images = 55000, .validation_error = -1
	};

	tflog_tell(&l, &s, 64);
	s = (struct train_state){ .moment = TRAIN_VALIDATED,
		.train_images = 55000,
		.step = 1,
		.step_seconds = 0.0112,
		.loss = 8.3344,
		.lr = 0.01,
		.batch_error = 0.859375,
		.validation_error = 0.8462 };
	tflog_tell(&l, &s, 64);
	s.step = 101;
	s.step_seconds += 0.84;
	s.loss = 3.2302;
	s.batch_error = 3.0 / 64;
	s.validation_error = 0.0754;
	s.moment = TRAIN_STEPPED;
	tflog_tell(&l, &s, 64);
	s.moment = TRAIN_VALIDATED;
	tflog_tell(&l, &s, 64);
	s.moment = TRAIN_EPOCH_ENDED;
	tflog_tell(&l, &s, 64);
	s.moment = TRAIN_TESTED;
	s.test_error = 0.0081;
	tflog_tell(&l, &s, 64);
	fclose(f);
	assert_string_equal(text,
		"Initialized!\n"
		"Step 0 (epoch 0.00), 11.2 ms\nMinibatch loss: 8.334, learning rate: 0.010000\n"
		"Minibatch error: 85.9%\nValidation error: 84.6%\n"
		"Step 100 (epoch 0.12), 8.4 ms\nMinibatch loss: 3.230, learning rate: 0.010000\n"
		"Minibatch error: 4.7%\nValidation error: 7.5%\n"
		"Test error: 0.8%\n");
	free(text);
}

/* --- event files ------------------------------------------------------------------------ */

static void checksums_are_those_of_the_standard(void **state)
{
	unsigned char zeros[32] = { 0 };

	assert_int_equal(tfevents_crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(tfevents_crc32c(zeros, sizeof(zeros)), 0x8a9136aa); /* RFC 3720, B.4 */
	assert_int_equal(tfevents_crc32c("", 0), 0);
}

static void a_directory_that_cannot_be_is_an_error_by_name(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct tfevents *t = NULL;

	write_file("file", "x", 1);
	assert_true(tfevents_open(in_test_dir("file/events"), &t, &err) < 0);
	assert_non_null(strstr(err.text, "file"));
	assert_null(t);
}

/* --- load ---------------------------------------------------------------------------------- */

static void put_stat(const char *text)
{
	assert_int_equal(file_mkdir_p(AT_FDCWD, in_test_dir("proc/self"), 0755, NULL), 0);
	write_file("proc/stat", text, strlen(text));
	write_file("proc/self/statm", "5000 1200 300 1 0 900 0\n", 24);
}

static void the_load_of_a_node_is_what_its_processors_did_since_the_last_sample(void **state)
{
	struct usage_before before = { 0 };
	struct usage l;

	put_stat("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3 4\n");
	usage_read(test_dir, &before, &l);
	assert_true(l.cpu_node_percent < 0 && l.cpu_process_percent < 0);
	assert_int_equal(l.rss, 1200 * sysconf(_SC_PAGESIZE));
	put_stat("cpu  120 0 105 760 115 0 0 0 0 0\ncpu0 1 2 3 4\n"); /* 25 busy of 100 */
	usage_read(test_dir, &before, &l);
	assert_true(fabs(l.cpu_node_percent - 25) < 1e-9);
	assert_true(l.cpu_process_percent >= 0);
	write_file("proc/stat", "intr 5\n", 7);
	unlink(in_test_dir("proc/self/statm"));
	usage_read(test_dir, &before, &l);
	assert_true(l.cpu_node_percent < 0);
	json_auto_t *record = record_load(&l, 1);
	assert_true(json_is_null(json_object_get(record, "rss_bytes")));
}

static void a_process_at_work_takes_one_processor(void **state)
{
	struct usage_before before = { 0 };
	struct usage l;
	volatile double x = 1;
	clock_t begun = clock();

	usage_read("", &before, &l);
	/* Long enough for one who stands still for seconds meanwhile to have taken a hundredth. */
	while (clock() - begun < CLOCKS_PER_SEC / 5)
		x = x * 1.0000001;
	usage_read("", &before, &l);
	assert_in_range((uintmax_t)l.cpu_process_percent, 1, 105);
	assert_true(l.rss > 100000);
}

struct told {
	int n, gpus;
	double percent;
};

static void count_load(void *ctx, const struct usage *l)
{
	struct told *t = ctx;

	t->n++;
	t->gpus = l->gpus;
	t->percent = l->gpus ? l->gpu[0].percent : -1;
}

/* A sampler that lives for a while, and longer where its thread was late: a sample of a moment is
 * not told. */
static struct told sampled(int with_gpus)
{
	struct told told = { 0 };

	for (useconds_t us = 120000; us < 60000000 && told.n == 0; us *= 2) {
		struct usage_sampler *s = usage_start(3600, with_gpus, count_load, &told);

		assert_non_null(s);
		usleep(us);
		usage_stop(&s);
		assert_null(s);
		usage_stop(&s);
	}
	return told;
}

static void the_sampler_takes_a_last_sample_when_it_ends(void **state)
{
	assert_int_equal(sampled(0).n, 1);
}

static void gpus_are_chosen_as_cuda_chooses_them(void **state)
{
	const char *uuid = "GPU-0123abcd-0000-1111-2222-333344445555";

	assert_true(nvml_is_listed(NULL, 3, uuid));
	assert_true(nvml_is_listed("0,3", 3, uuid));
	assert_true(nvml_is_listed("GPU-0123", 3, uuid));
	assert_false(nvml_is_listed("", 3, uuid));
	assert_false(nvml_is_listed("0,13,30", 3, uuid));
	assert_false(nvml_is_listed("GPU-0124", 3, uuid));
	assert_false(nvml_is_listed("3x", 3, uuid));
}

/* With the made-up management library of tests/gpu/fake_nvml.c, which main() put into the way. */
static void the_management_library_tells_the_load_of_gpus(void **state)
{
	static const char facts[] =
		"gpu 0000:3b:00.0\nuuid GPU-a\nname NVIDIA H200\nmemory 150000000000 0 "
		"3000000000\nbusy 87 40\npower 412500 700000\ntemperature 51\n"
		"gpu 0000:3c:00.0\nuuid GPU-b\nname NVIDIA H200\nbusy 5 1\n";
	struct usage_gpu gpus[USAGE_GPUS_MAX];
	struct nvml_watch *n;

	if (!getenv("FAKE_NVML"))
		fail_msg("the made-up library is not in the way");
	write_file("fake-nvml", facts, strlen(facts));
	n = nvml_open();
	assert_non_null(n);
	assert_int_equal(nvml_read(n, gpus, USAGE_GPUS_MAX), 2);
	assert_string_equal(gpus[0].name, "NVIDIA H200");
	assert_true(gpus[0].percent == 87 && gpus[0].power_watts == 412.5);
	assert_true(gpus[0].temperature == 51 && gpus[0].memory_total == 150000000000);
	assert_true(gpus[1].index == 1 && gpus[1].percent == 5);
	nvml_close(&n);
	assert_null(n);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	n = nvml_open();
	assert_int_equal(nvml_read(n, gpus, USAGE_GPUS_MAX), 1);
	assert_int_equal(gpus[0].index, 1);
	nvml_close(&n);
	setenv("CUDA_VISIBLE_DEVICES", "9", 1);
	assert_null(nvml_open());
	unsetenv("CUDA_VISIBLE_DEVICES");
	write_file("fake-nvml", "init 9\n", 7);
	assert_null(nvml_open());
	assert_int_equal(nvml_read(NULL, gpus, USAGE_GPUS_MAX), 0);
}

static void the_sampler_tells_of_gpus_where_they_are_wanted(void **state)
{
	static const char facts[] = "gpu 0000:3b:00.0\nuuid GPU-a\nname NVIDIA H200\nbusy 87 40\n";
	struct told told;

	write_file("fake-nvml", facts, strlen(facts));
	told = sampled(1);
	assert_true(told.n == 1 && told.gpus == 1 && told.percent == 87);
	told = sampled(0);
	assert_true(told.n == 1 && told.gpus == 0);
}

static void a_library_that_hangs_does_not_keep_a_run_from_ending(void **state)
{
	struct told told = { 0 };
	struct usage_sampler *s;

	write_file("fake-nvml", "init hang\n", 10);
	s = usage_start(3600, 1, count_load, &told);
	usage_stop(&s);
	assert_null(s);
	assert_int_equal(told.n, 0);
}

/* The linker reads its paths once, when a program starts: so once more, with the library in one. */
static void start_with_fake_nvml(char **argv)
{
	const char *build = getenv("top_builddir");
	auto_free char *library = NULL, *bytes = NULL;
	size_t len;

	if (getenv("FAKE_NVML")) {
		strcpy(test_dir, getenv("FAKE_NVML"));
		return;
	}
	library = xasprintf("%s/tests/gpu/fake_nvml.so", build ? build : ".");
	if (make_test_dir(NULL) < 0 ||
		file_read(AT_FDCWD, library, 1 << 22, &bytes, &len, NULL) < 0 ||
		file_replace(AT_FDCWD, in_test_dir("libnvidia-ml.so.1"), bytes, len, 0755, NULL) <
			0)
		return;
	setenv("LD_LIBRARY_PATH", test_dir, 1);
	setenv("FAKE_NVML", test_dir, 1);
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_resumed_run_counts_its_own_steps_alone),
		cmocka_unit_test(the_smoothed_rate_follows_a_change_within_seconds),
		cmocka_unit_test(the_first_line_names_the_device),
		cmocka_unit_test(the_tutorials_lines_are_as_the_tutorial_prints_them),
		cmocka_unit_test(checksums_are_those_of_the_standard),
		cmocka_unit_test(a_directory_that_cannot_be_is_an_error_by_name),
		cmocka_unit_test(
			the_load_of_a_node_is_what_its_processors_did_since_the_last_sample),
		cmocka_unit_test(a_process_at_work_takes_one_processor),
		cmocka_unit_test(the_sampler_takes_a_last_sample_when_it_ends),
		cmocka_unit_test(gpus_are_chosen_as_cuda_chooses_them),
		cmocka_unit_test(the_management_library_tells_the_load_of_gpus),
		cmocka_unit_test(the_sampler_tells_of_gpus_where_they_are_wanted),
		cmocka_unit_test(a_library_that_hangs_does_not_keep_a_run_from_ending),
	};

	start_with_fake_nvml(argv);
	return cmocka_run_group_tests_name("trainer metrics", tests, NULL, drop_test_dir);
}
