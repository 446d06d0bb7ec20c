/* mltrain train: from a data set to a tested network. */
#include "trainer/mltrain.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "trainer/data/dataset.h"
#include "trainer/progress.h"
#include "trainer/runlog.h"
#include "trainer/train/cpus.h"
#include "trainer/train/train.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct args {
	struct train_options train;
	const char *data, *log;
	uint64_t log_every;
	int quiet;
};

enum {
	KEY_LR = 256,
	KEY_LR_DECAY,
	KEY_MOMENTUM,
	KEY_L2,
	KEY_DROPOUT,
	KEY_VALIDATION,
	KEY_LOG,
	KEY_LOG_EVERY,
	KEY_CHECKPOINT,
	KEY_BACKEND,
	KEY_STEPS,
	KEY_SEED
};

static const struct argp_option options[] = {
	{ "data", 'd', "DIR", 0,
		"the data set: a directory of IDX files, or mnist or fashion-mnist", 1 },
	{ "epochs", 'e', "N", 0, "passes over the training images (10)", 1 },
	{ "steps", KEY_STEPS, "N", 0, "end after N steps even if epochs are left", 1 },
	{ "batch", 'b', "N", 0, "images a step (64)", 1 },
	{ "seed", KEY_SEED, "N", 0, "start of the random numbers (1); a run is repeatable", 1 },
	{ "threads", 't', "N", 0, "that compute (as many as CPUs may be used)", 2 },
	{ "backend", KEY_BACKEND, "NAME", 0, "onednn, reference or auto (auto)", 2 },
	{ "checkpoint", KEY_CHECKPOINT, "FILE", 0,
		"write the weights there after every epoch, as safetensors", 3 },
	{ "log", KEY_LOG, "FILE", 0, "append records to it, JSON lines", 3 },
	{ "log-every", KEY_LOG_EVERY, "N", 0, "steps between two step records (10)", 3 },
	{ "quiet", 'q', NULL, 0, "print the result alone", 3 },
	{ "lr", KEY_LR, "X", 0, "learning rate (0.01)", 4 },
	{ "lr-decay", KEY_LR_DECAY, "X", 0, "factor of the rate from an epoch to the next (0.95)",
		4 },
	{ "momentum", KEY_MOMENTUM, "X", 0, "momentum (0.9)", 4 },
	{ "l2", KEY_L2, "X", 0, "factor of the penalty on the dense layers' weights (5e-4)", 4 },
	{ "dropout", KEY_DROPOUT, "X", 0, "share of units dropped before the last layer (0.5)", 4 },
	{ "validation", KEY_VALIDATION, "N", 0, "training images kept for validation (5000)", 4 },
	{ 0 }
};

static error_t parse_recipe(int key, char *arg, struct argp_state *state, struct train_options *t)
{
	switch (key) {
	case KEY_LR:
		t->lr = arg_number(state, "lr", arg, 0, 1e6);
		return 0;
	case KEY_LR_DECAY:
		t->lr_decay = arg_number(state, "lr-decay", arg, 0, 10);
		return 0;
	case KEY_MOMENTUM:
		t->momentum = arg_number(state, "momentum", arg, 0, 1);
		return 0;
	case KEY_L2:
		t->l2 = arg_number(state, "l2", arg, 0, 1e6);
		return 0;
	case KEY_DROPOUT:
		t->dropout = arg_number(state, "dropout", arg, 0, 0.99);
		return 0;
	case KEY_VALIDATION:
		t->validation = (uint32_t)arg_count(state, "validation", arg, 0, UINT32_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;
	struct train_options *t = &a->train;

	switch (key) {
	case 'd':
		a->data = arg;
		return 0;
	case 'e':
		t->epochs = (int)arg_count(state, "epochs", arg, 1, 1000000);
		return 0;
	case KEY_STEPS:
		t->steps = arg_count(state, "steps", arg, 1, INT64_MAX);
		return 0;
	case 'b':
		t->batch = (int)arg_count(state, "batch", arg, 1, 65536);
		return 0;
	case KEY_SEED:
		t->seed = arg_count(state, "seed", arg, 0, INT64_MAX);
		return 0;
	case 't':
		t->threads = (int)arg_count(state, "threads", arg, 1, 1024);
		return 0;
	case KEY_BACKEND:
		t->backend = backend_find(arg);
		if (!t->backend)
			argp_error(state, "--backend '%s' is not one of: auto, %s", arg,
				backend_names());
		return 0;
	case KEY_CHECKPOINT:
		t->checkpoint = arg;
		return 0;
	case KEY_LOG:
		a->log = arg;
		return 0;
	case KEY_LOG_EVERY:
		a->log_every = arg_count(state, "log-every", arg, 1, INT64_MAX);
		return 0;
	case 'q':
		a->quiet = 1;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option; the data set is given with --data", arg);
		return 0;
	case ARGP_KEY_END:
		if (!a->data)
			argp_error(state,
				"which data set? give --data DIR, --data mnist or --data fashion-mnist");
		return 0;
	default:
		return parse_recipe(key, arg, state, t);
	}
}

static const struct argp argp = { options, parse, NULL,
	"Train the reference network (TensorFlow's convolutional.py: two convolutions, two dense layers) and "
	"test it. SIGTERM and SIGINT end training after the step under way, with a checkpoint." };

static volatile sig_atomic_t stop_signal;

static void on_signal(int sig)
{
	stop_signal = sig;
}

/*
 * Kernels that oneDNN generates point the stack register elsewhere at times, into the heap: there the
 * kernel would write a signal's frame (3.5 kB with AVX-512's registers), and one run in ten that was
 * interrupted ended with "corrupted size vs. prev_size". Frames go to a stack of their own.
 */
static char signal_stack[1 << 16];

/*
 * What the caller ignores stays ignored. SIGTERM may come more than once for one wish (timeout(1) and
 * srun(1) signal the process and its group), so only a second SIGINT, which a person typed, kills.
 */
static void catch_signals(void)
{
	static const struct {
		int sig, flags;
	} ends[] = { { SIGTERM, 0 }, { SIGINT, (int)SA_RESETHAND } };
	stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	struct sigaction was, sa = { .sa_handler = on_signal };

	sigaltstack(&stack, NULL);
	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		sa.sa_flags = SA_RESTART | SA_ONSTACK | ends[i].flags;
		if (sigaction(ends[i].sig, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(ends[i].sig, &sa, NULL);
	}
}

struct telling {
	const struct args *args;
	const char *data_dir;
	struct progress progress;
	struct runlog *log; /* may be NULL */
};

static void tell(void *ctx, const struct train_state *s)
{
	struct telling *t = ctx;

	if (t->log)
		runlog_tell(t->log, s, &t->args->train, t->data_dir);
	if (!t->args->quiet)
		progress_tell(&t->progress, s, &t->args->train);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int say_interrupted(const struct args *a, const struct train_state *s)
{
	mlr_info("stopped by %s after step %" PRIu64 " (epoch %d)%s%s",
		stop_signal == SIGTERM ? "SIGTERM" : "SIGINT", s->step, s->epoch,
		a->train.checkpoint ? "; weights written to " : "; no --checkpoint was given",
		a->train.checkpoint ? a->train.checkpoint : "");
	return stop_signal == SIGTERM ? 0 : 128 + SIGINT;
}

static void say_result(const struct args *a, const struct train_state *s, double total)
{
	print_accuracy(s->test_wrong, s->test_images);
	printf("training time %.2f s (%" PRIu64 " steps, %.0f images/s)\n", s->step_seconds,
		s->step, (double)s->step * a->train.batch / s->step_seconds);
	printf("evaluation time %.2f s\n", s->evaluate_seconds);
	printf("total time %.2f s\n", total);
	if (a->train.checkpoint)
		printf("checkpoint %s\n", a->train.checkpoint);
	if (a->log)
		printf("log %s\n", a->log);
}

/* Everything between the options and the verdict. */
static int run(struct args *a, struct telling *t, struct train_state *state, struct mlr_error *err)
{
	auto_call(dataset_done) struct dataset data = DATASET_INIT;
	auto_call(net_free) struct net *net = NULL;
	struct shape input;
	int r;

	r = dataset_load(a->data, DATASET_ALL, &data, err);
	if (r < 0)
		return r;
	if (data.height > 65536 || data.width > 65536)
		return mlr_fail(err, EINVAL, "'%s': images of %ux%u are too large", data.dir,
			data.height, data.width);
	input = shape3(1, (int)data.height, (int)data.width);
	r = net_reference(input, data.classes, (float)a->train.dropout, &net, err);
	if (r < 0)
		return r;

	t->data_dir = data.dir;
	catch_signals();
	r = train_run(&a->train, net, &data, tell, t, state, err);
	progress_clear(&t->progress);
	if (r < 0 && t->log)
		runlog_fail(t->log, err);
	return r;
}

int cmd_train(int argc, char **argv)
{
	struct args a = { .train = TRAIN_OPTIONS_INIT, .log_every = 10 };
	struct telling t = { &a };
	struct train_state state = { 0 };
	struct mlr_error err = MLR_ERROR_INIT, log_err = MLR_ERROR_INIT;
	char name[] = "mltrain train";
	double start = now();
	int r;

	a.train.backend = backend_find("auto");
	a.train.threads = cpus_available("");
	a.train.stop = &stop_signal;
	argv[0] = name;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	progress_init(&t.progress);
	if (a.log && runlog_open(a.log, a.log_every, &t.log, &err) < 0)
		return main_fail(&err);

	r = run(&a, &t, &state, &err);
	if (runlog_close(t.log, &log_err) < 0)
		main_fail(&log_err);
	if (r < 0)
		return main_fail(&err);
	r = 0;
	if (state.moment == TRAIN_INTERRUPTED)
		r = say_interrupted(&a, &state);
	else
		say_result(&a, &state, now() - start);
	return log_err.code ? EXIT_BROKEN : r;
}
