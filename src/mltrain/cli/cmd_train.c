/* mltrain train: trains a network on a data set and tests it. */
#include "cli/mltrain.h"
#include "cli/arg.h"
#include "cli/train_args.h"
#include "data/dataset.h"
#include "metrics/metrics.h"
#include "model/net_file.h"
#include "train/cpus.h"
#include "train/train.h"

/* Catches signals that ask training to end or to save. */

static volatile sig_atomic_t signals_stop; /* the number of the signal, or 0 */
static volatile sig_atomic_t signals_save; /* nonzero: save because of SIGUSR1 and continue */

static void on_stop(int sig)
{
	signals_stop = sig;
}

static void on_save(int sig)
{
	signals_save = sig;
}

/*
 * Give signal handlers a stack of their own. Code that oneDNN generates sometimes points the stack
 * register into the heap. The kernel would write a signal's frame there (3.5 kB with AVX-512's
 * registers); one interrupted run in ten ended with "corrupted size vs. prev_size".
 */
static char signal_stack[1 << 16];

/*
 * Catch SIGTERM, SIGHUP, SIGINT and SIGUSR1. Signals that the caller ignores, as nohup(1) does
 * SIGHUP, stay ignored. Only a second SIGINT, which a person types, kills: timeout(1) and srun(1)
 * send SIGTERM to the process and its group, so it comes twice. SIGXFSZ is ignored, so that a
 * checkpoint above the limit of file sizes is a failed write.
 *
 *   usr1_continues   SIGUSR1 sets signals_save instead of signals_stop
 */
static void signals_catch(int usr1_continues)
{
	const struct {
		int sig, flags;
		void (*handler)(int sig);
	} caught[] = { { SIGTERM, 0, on_stop }, { SIGHUP, 0, on_stop },
		{ SIGINT, (int)SA_RESETHAND, on_stop },
		{ SIGUSR1, 0, usr1_continues ? on_save : on_stop } };
	stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	struct sigaction was, sa = { 0 };

	sigaltstack(&stack, NULL);
	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(caught); i++) {
		sa.sa_handler = caught[i].handler;
		sa.sa_flags = SA_RESTART | SA_ONSTACK | caught[i].flags;
		if (sigaction(caught[i].sig, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(caught[i].sig, &sa, NULL);
	}
	signal(SIGXFSZ, SIG_IGN);
}

/* "SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1". */
static const char *signals_name(int sig)
{
	return sig == SIGTERM    ? "SIGTERM"
		: sig == SIGHUP  ? "SIGHUP"
		: sig == SIGUSR1 ? "SIGUSR1"
				 : "SIGINT";
}

/* Everything that a run needs. */
struct session {
	struct train_args args;
	struct dist *dist;
	struct checkpoint from; /* resume from it; .net NULL: from the start */
	struct dataset data;
	struct net *net;
	struct metrics *metrics; /* rank 0's */
};

static void session_done(struct session *s)
{
	checkpoint_done(&s->from);
	dataset_done(&s->data);
	net_free(&s->net);
	dist_close(&s->dist);
}

/* --- messages --------------------------------------------------------------------------------- */

static void tell_plan(const struct engine *e)
{
	auto_free char *plan = e->backend->plan ? e->backend->plan(e) : NULL;

	if (plan)
		fprintf(stderr, "%s%s", plan, *plan && plan[strlen(plan) - 1] == '\n' ? "" : "\n");
	else
		mlr_info("memory: %.1f MB", 1e-6 * (double)e->memory);
}

/* The rank that did the telling is gone. Without its log training goes on. */
static void take_over(struct session *s)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (metrics_open(&s->args.metrics, &s->metrics, &err) == 0)
		return;
	mlr_log_failure(MLR_WARNING, &err, "; training goes on");
	s->args.metrics.log = s->args.metrics.tensorboard = NULL;
	metrics_open(&s->args.metrics, &s->metrics, &err);
}

static void tell(void *ctx, const struct train_state *state)
{
	struct session *s = ctx;

	if (!s->metrics)
		take_over(s);
	if (state->test && (s->args.metrics.log || s->args.metrics.format == METRICS_JSON))
		metrics_put(s->metrics, test_record(state->test, &s->data, NULL, state->step));
	metrics_tell(s->metrics, state, &s->args.train, &s->data);
	if (state->moment == TRAIN_STARTED && s->args.verbose)
		tell_plan(state->engine);
}

/* Returns the exit status. */
static int say_interrupted(const struct session *s, const struct train_state *state)
{
	const char *file = s->args.train.checkpoint;

	mlr_info("stopped by %s after step %" PRIu64 " (epoch %d)%s%s",
		state->signal ? signals_name(state->signal) : "--max-time", state->step,
		state->epoch, file ? "; weights written to " : "; no --checkpoint was given",
		file ? file : "");
	return state->signal == SIGINT ? 128 + SIGINT : 0;
}

/* Returns the exit status. */
static int say_left(const struct session *s, const struct train_state *state)
{
	if (s->args.metrics.quiet)
		return 0;
	if (state->signal)
		mlr_info("left the run by %s after step %" PRIu64, signals_name(state->signal),
			state->step);
	else
		mlr_info("the run ended before this rank could join");
	return 0;
}

static void say_result(const struct session *s, const struct train_state *state, double total)
{
	const struct train_options *o = &s->args.train;
	/* The last epoch may have ended early or before this run. */
	int epoch = state->epoch > state->epochs_done ? state->epoch : state->epochs_done;

	print_accuracy(state->test_wrong, state->test_images);
	if (state->reached)
		mlr_info("--target-accuracy %g %% was reached in epoch %d, at step %" PRIu64,
			100 * o->target_accuracy, epoch, state->step);
	printf("training time %.2f s (%" PRIu64 " steps, %.0f images/s)\n", state->step_seconds,
		state->step,
		state->step_seconds > 0
			? (double)state->step * o->recipe.batch / state->step_seconds
			: 0);
	printf("evaluation time %.2f s\n", state->evaluate_seconds);
	/* The time of steps includes that of the resumed run. */
	printf("total time %.2f s%s\n", total, s->from.net ? " since it went on" : "");
	if (o->checkpoint)
		printf("checkpoint %s\n", o->checkpoint);
	if (s->args.metrics.log)
		printf("log %s\n", s->args.metrics.log);
}

/* --- making ready --- */

/* A mistyped --resume must not cost the weights in --checkpoint. */
static int check_anew(const struct session *s, struct mlr_error *err)
{
	const char *there = s->args.train.checkpoint;

	if (access(there, F_OK) < 0)
		return 0;
	mlr_fail(err, EEXIST, "--resume: there is no '%s', and starting anew would replace '%s'",
		s->args.resume, there);
	return mlr_hint(err, "--resume alone goes on from '%s'", there);
}

static int open_resume(struct session *s, struct mlr_error *err)
{
	const char *path = s->args.resume;
	int r;

	if (!s->args.wants_resume)
		return 0;
	r = train_read_checkpoint(path, s->dist, &s->from, err);
	if (r < 0)
		return mlr_wrap(err, "--resume");
	if (s->dist->rank != 0)
		return 0;
	if (r == 0 && check_anew(s, err) < 0)
		return -err->code;
	if (s->args.metrics.quiet)
		return 0;
	if (r == 0)
		mlr_info("--resume: there is no '%s' yet: starting anew", path);
	else
		mlr_info("going on from '%s': step %" PRIu64 ", %d epoch%s done", path,
			s->from.step, s->from.epochs_done, s->from.epochs_done == 1 ? "" : "s");
	return 0;
}

/* Only folders have pictures of any size; other sets have a fixed one. */
static int check_input(const struct session *s, struct mlr_error *err)
{
	const struct dataset *d = &s->data;
	const struct shape *want = &s->args.input;
	char input[SHAPE_TEXT_MAX];

	if (want->rank != 3 ||
		((uint32_t)want->dim[0] == d->channels && (uint32_t)want->dim[1] == d->height &&
			(uint32_t)want->dim[2] == d->width))
		return 0;
	mlr_fail(err, EINVAL, "--input %s: the images of '%s' are of %ux%ux%u",
		shape_text(want, input), d->dir, d->channels, d->height, d->width);
	return mlr_hint(err,
		s->from.net ? "training that goes on keeps the size: leave it out"
			    : "it is for folders of pictures: leave it out");
}

static int open_data(struct session *s, struct mlr_error *err)
{
	const struct shape *want = s->from.net ? &s->from.net->input : &s->args.input;
	struct dataset_wish wish = {
		.memory_max = s->args.data_memory, .seed = 1, .threads = s->args.train.threads
	};
	struct dataset *d = &s->data;
	auto_free char *notice = NULL;

	if (want->rank == 3) {
		wish.channels = (uint32_t)want->dim[0];
		wish.height = (uint32_t)want->dim[1];
		wish.width = (uint32_t)want->dim[2];
	}
	TRY(dataset_load(s->args.data, DATASET_ALL, &wish, d, err));
	TRY(dataset_check_classes(d, &notice, err));
	if (notice && s->dist->rank == 0)
		mlr_warning("%s", notice);
	if (d->height > 65536 || d->width > 65536)
		return mlr_fail(err, EINVAL, "'%s': images of %ux%u are too large", d->dir,
			d->height, d->width);
	return check_input(s, err);
}

/* Make the network of a checkpoint, with the rate of --dropout if given. */
static int copy_net(const struct net *from, const struct net_wish *wish, struct net **ret,
	struct mlr_error *err)
{
	const struct net_wish dropout = { .dropout = wish->dropout };
	auto_free char *text = net_text(from);

	return net_parse(text, strlen(text), "checkpoint", &dropout, ret, NULL, err);
}

static int read_recipe(const char *text, struct recipe *ret, struct mlr_error *err)
{
	json_error_t why;
	json_auto_t *o = text ? json_loads(text, JSON_REJECT_DUPLICATES, &why) : NULL;

	if (!text)
		return mlr_fail(err, EPROTO, "the checkpoint to go on from has no recipe");
	if (!o)
		return mlr_fail(err, EPROTO, "the checkpoint's recipe is not JSON: %s", why.text);
	*ret = (struct recipe)RECIPE_INIT; /* what it does not name has its default */
	return recipe_parse(o, ret, err) < 0 ? mlr_wrap(err, "the checkpoint's recipe") : 0;
}

/* Keep less for validation than usual if the data set is small. */
static void choose_validation(const struct session *s, struct recipe *r)
{
	uint32_t images = s->data.train.count, chosen = recipe_validation(r, images);

	if (chosen != r->validation && chosen < RECIPE_VALIDATION && s->dist->rank == 0 &&
		!s->args.metrics.quiet)
		mlr_info("%u of %u training images are kept for validation, a tenth; --validation "
			 "says another number",
			chosen, images);
	r->validation = chosen;
}

/* Make the network and recipe of the description, overridden by the checkpoint and the options. */
static int open_net(struct session *s, struct mlr_error *err)
{
	struct train_args *a = &s->args;
	struct net_wish wish = { .classes = s->data.classes, .dropout = a->dropout };
	struct recipe recipe = RECIPE_INIT;
	int r;

	wish.input = shape3((int)s->data.channels, (int)s->data.height, (int)s->data.width);
	if (s->from.net && !(a->given & GIVEN_NET))
		r = copy_net(s->from.net, &wish, &s->net, err);
	else
		r = net_read(a->net, &wish, &s->net, &recipe, err);
	if (r == 0 && s->from.net && (s->from.kept[0] || s->from.recipe))
		r = read_recipe(s->from.recipe, &recipe, err);
	if (r < 0)
		return r;
	TRY(train_args_apply(a, &recipe, err));
	choose_validation(s, &recipe);
	a->train.recipe = recipe;
	return 0;
}

/* Choose the normalisation: the data set's unless an option or the checkpoint gives another. */
static int normalize(struct session *s, struct mlr_error *err)
{
	const struct train_args *a = &s->args;

	if (s->from.net && !(a->given & GIVEN_NORMALIZE))
		s->data.norm = s->from.norm;
	else if (a->normalize == NORMALIZE_DATASET)
		return dataset_measure(
			&s->data, a->train.recipe.validation, a->train.threads, &s->data.norm, err);
	return 0;
}

/* Take from the checkpoint what no option gives. */
static void follow_checkpoint(struct session *s)
{
	struct train_options *t = &s->args.train;

	if (!s->from.net)
		return;
	t->resume = &s->from;
	t->resume_elsewhere = !file_is_same(s->args.resume, t->checkpoint);
	if (!(s->args.given & GIVEN_SEED))
		t->seed = s->from.seed;
	if (!(s->args.given & GIVEN_DTYPE))
		t->dtype = s->from.dtype;
}

/* Do everything between the options and the exit status. */
static int run(struct session *s, struct train_state *state, struct mlr_error *err)
{
	struct train_options *t = &s->args.train;
	int r;

	t->dist = s->dist;
	t->stop = &signals_stop;
	t->save = &signals_save;
	t->tell_weights = s->args.metrics.tensorboard != NULL;
	if ((r = open_resume(s, err)) < 0 || (r = open_data(s, err)) < 0 ||
		(r = open_net(s, err)) < 0 || (r = normalize(s, err)) < 0)
		return r;
	follow_checkpoint(s);
	signals_catch(s->args.usr1_continues);
	return train_run(t, s->net, &s->data, tell, s, state, err);
}

/* --- the end --- */

/* Report the failure, and end the other ranks too. */
static int fail(struct session *s, struct mlr_error *err)
{
	/* Rank 0 reports what all ranks find wrong, and ends them meanwhile. */
	if (s->dist && s->dist->rank != 0) {
		dist_let_rank_0(s->dist);
		mlr_wrap(err, "rank %d", s->dist->rank);
	}
	main_fail(err);
	if (s->dist)
		dist_fail(s->dist, EXIT_BROKEN);
	return EXIT_BROKEN;
}

/* Returns the exit status. */
static int end(struct session *s, const struct train_state *state, double started)
{
	if (state->moment == TRAIN_LEFT)
		return say_left(s, state);
	if (s->dist->rank != 0)
		return state->moment == TRAIN_INTERRUPTED && state->signal == SIGINT ? 128 + SIGINT
										     : 0;
	if (state->moment == TRAIN_INTERRUPTED)
		return say_interrupted(s, state);
	if (s->args.metrics.format == METRICS_TEXT)
		say_result(s, state, mlr_now() - started);
	return 0;
}

/* Elastic ranks of a node do not share its CPUs out: their number changes. */
static int open_ranks(struct session *s, struct mlr_error *err)
{
	struct elastic_options *o = &s->args.elastic;
	int has_threads = s->args.given & GIVEN_THREADS, r;

	o->stop = &signals_stop;
	r = o->where ? elastic_open(o, &s->dist, err) : dist_open(&s->dist, err);
	if (r < 0)
		return r;
	if (has_threads) {
		s->args.train.threads = cpus_cut(s->args.train.threads, s->dist->rank == 0);
		return 0;
	}
	if (!o->where)
		return cpus_share(s->dist, "", &s->args.train.threads, err);
	s->args.train.threads = cpus_available("");
	return 0;
}

/* Tell whoever started this rank where the log is: `mlrun elastic top` looks there. */
static void show_log(const struct train_args *a)
{
	const char *where = getenv("MLRUN_ELASTIC_LOG");
	auto_free char *log = NULL;

	if (!where || !*where || !a->elastic.where || !a->metrics.log)
		return;
	log = realpath(a->metrics.log, NULL);
	unlink(where);
	if (!log || symlink(log, where) < 0)
		mlr_debug("link '%s' to the log: %s, ignoring", where, strerror(errno));
}

int cmd_train(int argc, char **argv)
{
	auto_call(session_done) struct session s = { .data = { 0 } };
	struct mlr_error err = MLR_ERROR_INIT, log_err = MLR_ERROR_INIT;
	struct train_state state = { 0 };
	char name[] = "mltrain train";
	double started = mlr_now();
	int r;

	argv[0] = name;
	train_args_parse(argc, argv, &s.args);
	s.args.train.started = started;
	if (open_ranks(&s, &err) < 0)
		return s.dist ? fail(&s, &err) : main_fail(&err);
	if (s.dist->rank == 0 && metrics_open(&s.args.metrics, &s.metrics, &err) < 0)
		return fail(&s, &err);
	if (s.dist->rank == 0)
		show_log(&s.args);

	r = run(&s, &state, &err);
	if (r < 0 && r != -ESTALE && s.metrics) /* else others go on with the log */
		metrics_fail(s.metrics, &err);
	if (metrics_close(&s.metrics, &log_err) < 0)
		main_fail(&log_err);
	if (r < 0)
		return fail(&s, &err);
	r = end(&s, &state, started);
	return log_err.code ? EXIT_BROKEN : r;
}
