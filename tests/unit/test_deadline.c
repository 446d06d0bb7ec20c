/* A worker's deadline, while the machine's clock is set: this program is the worker's supervisor,
 * and as `exec` its command. */
#include "unit.h"
#include "scratch.h"
#include "work/worker.h"
#include "work/work.h"

#include <sys/wait.h>
#include <time.h>

#define HOUR 3600

/* The supervisor looks at the clock once, before its command runs; then it is set by so many
 * seconds. */
static int64_t jump;
static int asked;

int64_t __real_mlr_epoch_ms(void);
int64_t __wrap_mlr_epoch_ms(void);
int64_t __wrap_mlr_epoch_ms(void)
{
	return __real_mlr_epoch_ms() + (asked++ ? jump * 1000 : 0);
}

time_t __real_time(time_t *t);
time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t)
{
	time_t now = __real_time(NULL) + (asked ? jump : 0);

	if (t)
		*t = now;
	return now;
}

/* Hold a worker whose command takes so many milliseconds; w gets what is known of it then. */
static void hold(int64_t deadline, const char *ms, struct worker *w)
{
	auto_free char *key = NULL;
	int status = -1;

	*w = (struct worker)WORKER_INIT;
	worker_set(&w->id, "1");
	worker_set(&w->name, "test");
	worker_set(&w->system, "slurm");
	worker_set(&w->image, "image");
	worker_set(&w->directory, "/");
	strv_add(&w->command, ms);
	w->created = time(NULL);
	w->deadline = w->created + deadline;
	ok(worker_make(st, w, &err));
	ok(worker_write(st, w, &err));
	key = xstrdup(w->key);
	if (fork_child() == 0)
		_exit(work_hold(st, key, &status, &err) < 0 && fprintf(stderr, "%s\n", err.text));
	assert_true(wait(&status) > 0 && status == 0);
	worker_done(w);
	*w = (struct worker)WORKER_INIT;
	ok(worker_read(st, key, w, &err));
}

static void a_clock_that_is_set_forward_ends_no_worker(void **state)
{
	auto_call(worker_done) struct worker w = WORKER_INIT;

	jump = 2L * HOUR;
	hold(HOUR, "300", &w);
	assert_string_equal(w.why, "exit");
	assert_int_equal(w.exit_status, 7);
}

static void a_clock_that_is_set_back_does_not_delay_the_deadline(void **state)
{
	auto_call(worker_done) struct worker w = WORKER_INIT;

	jump = -2L * HOUR;
	hold(1, "600000", &w);
	assert_string_equal(w.why, "deadline");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_clock_that_is_set_forward_ends_no_worker, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_clock_that_is_set_back_does_not_delay_the_deadline, setup, teardown),
	};

	if (argc > 1 && strcmp(argv[1], "exec") == 0) {
		usleep((useconds_t)strtol(argv[argc - 1], NULL, 10) * 1000);
		return 7;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
