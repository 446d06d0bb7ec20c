#include "cli/train_args.h"

#include "base/base.h"
#include "backend/cuda_load.h"
#include "cli/mltrain.h"
#include "cli/recipe_arg.h"
#include "optimiser/optimiser.h"
#include "train/cpus.h"

#include <math.h>

enum {
	KEY_OPTIMISER = 256,
	KEY_LR,
	KEY_LR_DECAY,
	KEY_LR_SCALE,
	KEY_SCHEDULE,
	KEY_WARMUP,
	KEY_MOMENTUM,
	KEY_L2,
	KEY_SMOOTHING,
	KEY_DROPOUT,
	KEY_AUGMENT,
	KEY_VALIDATION,
	KEY_LOG,
	KEY_LOG_EVERY,
	KEY_LOG_FORMAT,
	KEY_LOAD_EVERY,
	KEY_TENSORBOARD,
	KEY_CHECKPOINT,
	KEY_CHECKPOINT_EVERY,
	KEY_KEEP_BEST,
	KEY_RESUME,
	KEY_ON_USR1,
	KEY_TARGET_ACCURACY,
	KEY_MAX_TIME,
	KEY_BACKEND,
	KEY_DTYPE,
	KEY_DETERMINISTIC,
	KEY_TUNE,
	KEY_ISA,
	KEY_NORMALIZE,
	KEY_INPUT,
	KEY_DATA_MEMORY,
	KEY_STEPS,
	KEY_SEED,
	KEY_ELASTIC,
	KEY_ELASTIC_SECRET,
	KEY_MIN_RANKS,
	KEY_MAX_RANKS
};

static const struct argp_option options[] = { { NULL, 0, NULL, 0,
						      "Data, network and length of training:", 1 },
	{ "data", 'd', "DIR", 0,
		"the data set: a directory of IDX files, CIFAR's or pictures, or a name such as "
		"fashion-mnist",
		1 },
	{ "net", 'n', "NAME", 0, "the network: a shipped one's name or a JSON file (reference)",
		1 },
	{ "input", KEY_INPUT, "CxHxW", 0, "size to which pictures in folders are scaled", 1 },
	{ "data-memory", KEY_DATA_MEMORY, "MIB", 0,
		"memory for pictures; others are decoded when needed (2048)", 1 },
	{ "normalize", KEY_NORMALIZE, "HOW", 0,
		"normalisation of pixels: fixed, (byte - 127.5) / 255, or dataset, by the mean and "
		"deviation of the training images (fixed)",
		1 },
	{ "epochs", 'e', "N", 0, "passes over the training images (the description's, 10)", 1 },
	{ "steps", KEY_STEPS, "N", 0, "end after N steps even if epochs are left", 1 },
	{ "batch", 'b', "N", 0, "images of a step, on all ranks together (64)", 1 },
	{ "seed", KEY_SEED, "N", 0, "seed of the random numbers (1); runs with one seed are equal",
		1 },
	{ "target-accuracy", KEY_TARGET_ACCURACY, "P", 0,
		"end when an epoch's validation accuracy reaches P %; without validation images, its "
		"test accuracy",
		1 },
	{ "max-time", KEY_MAX_TIME, "TIME", 0,
		"end within this time, checkpoint included: 90, 90s, 30m, 8h, 2d", 1 },

	{ NULL, 0, NULL, 0, "Computation:", 2 },
	{ "backend", KEY_BACKEND, "NAME", 0, "one that mltrain --version lists, or auto (auto)",
		2 },
	{ "dtype", KEY_DTYPE, "TYPE", 0, "f32, bf16 or tf32 (f32)", 2 },
	{ "threads", 't', "N", 0, "threads of this rank (one for each usable CPU)", 2 },
	{ "isa", KEY_ISA, "NAME", 0,
		"no wider instructions of the CPU than sse4, avx2, avx512, avx512-bf16, amx", 2 },
	{ "tune", KEY_TUNE, NULL, 0,
		"measure which kernels are fastest on this GPU, and keep the result", 2 },
	{ "deterministic", KEY_DETERMINISTIC, NULL, 0,
		"give the same bits each time on a GPU too, even if slower", 2 },

	{ NULL, 0, NULL, 0, "Checkpoints:", 3 },
	{ "checkpoint", KEY_CHECKPOINT, "FILE", 0,
		"write the weights to FILE after every epoch, as safetensors", 3 },
	{ "checkpoint-every", KEY_CHECKPOINT_EVERY, "N", 0,
		"write it every N steps too, or by time: 90s, 10m", 3 },
	{ "keep-best", KEY_KEEP_BEST, "FILE", 0,
		"write the weights with the lowest validation error to FILE", 3 },
	{ "resume", KEY_RESUME, "FILE", OPTION_ARG_OPTIONAL,
		"continue from FILE (the one of --checkpoint); start anew if it does not exist",
		3 },
	{ "on-usr1", KEY_ON_USR1, "WHAT", 0,
		"stop or continue after SIGUSR1 and its checkpoint (stop)", 3 },

	{ NULL, 0, NULL, 0, "Ranks that come and go:", 6 },
	{ "elastic", KEY_ELASTIC, "FILE|HOST:PORT", 0,
		"begin a run that other processes of this command join, or join it; they meet by "
		"FILE, or at HOST:PORT",
		6 },
	{ "min-ranks", KEY_MIN_RANKS, "N", 0, "wait while there are fewer ranks (1)", 6 },
	{ "max-ranks", KEY_MAX_RANKS, "N", 0,
		"have further ranks wait for a place (4, or --min-ranks if that is more)", 6 },
	{ "elastic-secret", KEY_ELASTIC_SECRET, "FILE", 0,
		"the secret of --elastic HOST:PORT ($MLTRAIN_ELASTIC_SECRET)", 6 },

	{ NULL, 0, NULL, 0, "Output:", 4 },
	{ "log", KEY_LOG, "FILE", 0, "append records to FILE as JSON lines", 4 },
	{ "log-every", KEY_LOG_EVERY, "N", 0, "steps between two step records (10)", 4 },
	{ "log-format", KEY_LOG_FORMAT, "FORM", 0,
		"format of standard output: text, tf (the tutorial's lines) or json (the log's) (text)",
		4 },
	{ "load-every", KEY_LOAD_EVERY, "S", 0,
		"seconds between two records of CPU and GPU load; 0: none (2)", 4 },
	{ "tensorboard", KEY_TENSORBOARD, "DIR", 0, "write TensorBoard's event files to DIR", 4 },
	{ "quiet", 'q', NULL, 0, "print only the result", 4 },
	{ "verbose", 'v', NULL, 0, "print the memory plan too", 4 },

	{ NULL, 0, NULL, 0, "Recipe, overriding the description's:", 5 },
	{ "optimiser", KEY_OPTIMISER, "NAME", 0, "sgd, adam or adamw (sgd)", 5 },
	{ "lr", KEY_LR, "X", 0, "learning rate (0.01)", 5 },
	{ "lr-decay", KEY_LR_DECAY, "X", 0,
		"factor of the rate after each epoch (0.95): --schedule exponential,decay=X", 5 },
	{ "lr-scale", KEY_LR_SCALE, "HOW", 0,
		"how --batch scales the description's rate: none, linear or sqrt (none)", 5 },
	{ "schedule", KEY_SCHEDULE, "KIND[,...]", 0,
		"constant; exponential,decay=X; steps,decay=X,at=E:E...; cosine,final=X; "
		"one-cycle,start=X,rise=X,final=X",
		5 },
	{ "warmup", KEY_WARMUP, "E", 0, "epochs in which the rate rises from 0", 5 },
	{ "momentum", KEY_MOMENTUM, "X", 0, "momentum; with adam and adamw, beta1 (0.9)", 5 },
	{ "l2", KEY_L2, "X", 0, "factor of the penalty on the dense layers' weights (5e-4)", 5 },
	{ "label-smoothing", KEY_SMOOTHING, "X", 0,
		"share of each label that goes to all classes alike (0)", 5 },
	{ "dropout", KEY_DROPOUT, "X", 0, "share of units that every dropout layer drops (0.5)",
		5 },
	{ "augment", KEY_AUGMENT, "WHAT", 0, "none, or some of: shift=PIXELS,flip,cutout=PIXELS",
		5 },
	{ "validation", KEY_VALIDATION, "N", 0,
		"training images kept for validation (5000; a tenth of fewer than 50000)", 5 },
	{ 0 } };

/* --- options with a syntax of their own ------------------------------------------------------ */

/* The size that pictures, gray or of three colours, are scaled to. */
static struct shape parse_input(struct argp_state *state, const char *arg)
{
	struct shape s = arg_input(state, arg);

	if ((s.dim[0] != 1 && s.dim[0] != 3) || s.dim[1] > 65536 || s.dim[2] > 65536)
		argp_error(state,
			"--input '%s': pictures have 1 or 3 channels and 65536 rows and columns "
			"at most",
			arg);
	return s;
}

/* A bare number counts steps; one with a unit is a duration. */
static void parse_every(struct argp_state *state, const char *arg, struct train_options *t)
{
	size_t n = strlen(arg);

	if (n && strchr("smhd", arg[n - 1]))
		t->save_seconds = arg_seconds(state, "checkpoint-every", arg);
	else
		t->save_steps = arg_count(state, "checkpoint-every", arg, 1, INT64_MAX);
}

/* --- the table's cases ---------------------------------------------------------------------- */

static int parse_optimiser(const char *arg, struct argp_state *state)
{
	const char *names[OPTIMISERS + 1] = { NULL };

	for (size_t i = 0; i < OPTIMISERS; i++)
		names[i] = optimisers[i].name;
	return arg_word(state, "optimiser", arg, names);
}

static error_t parse_recipe(int key, char *arg, struct argp_state *state, struct train_args *a)
{
	struct recipe *r = &a->train.recipe;

	switch (key) {
	case 'e':
		r->epochs = (int)arg_count(state, "epochs", arg, 1, 1000000);
		a->given |= GIVEN_EPOCHS;
		return 0;
	case 'b':
		r->batch = (int)arg_count(state, "batch", arg, 1, RECIPE_BATCH_MAX);
		a->given |= GIVEN_BATCH;
		return 0;
	case KEY_LR:
		r->lr = arg_number(state, "lr", arg, 0, 1e6);
		a->given |= GIVEN_LR;
		return 0;
	case KEY_LR_DECAY:
		r->schedule.kind = SCHEDULE_EXPONENTIAL;
		r->schedule.decay = arg_number(state, "lr-decay", arg, 0, 1);
		a->given |= GIVEN_SCHEDULE;
		return 0;
	case KEY_SCHEDULE:
		recipe_arg_schedule(state, arg, &r->schedule);
		a->given |= GIVEN_SCHEDULE;
		return 0;
	case KEY_WARMUP:
		r->schedule.warmup = arg_number(state, "warmup", arg, 0, 1e6);
		a->given |= GIVEN_WARMUP;
		return 0;
	case KEY_OPTIMISER:
		r->optimiser = parse_optimiser(arg, state);
		a->given |= GIVEN_OPTIMISER;
		return 0;
	case KEY_MOMENTUM:
		r->momentum = arg_number(state, "momentum", arg, 0, 1);
		a->given |= GIVEN_MOMENTUM;
		return 0;
	case KEY_L2:
		r->l2 = arg_number(state, "l2", arg, 0, 1e6);
		a->given |= GIVEN_L2;
		return 0;
	case KEY_SMOOTHING:
		r->smoothing = arg_number(state, "label-smoothing", arg, 0, 1);
		a->given |= GIVEN_SMOOTHING;
		return 0;
	case KEY_AUGMENT:
		recipe_arg_augment(state, arg, &r->augment);
		a->given |= GIVEN_AUGMENT;
		return 0;
	case KEY_VALIDATION:
		r->validation = (uint32_t)arg_count(
			state, "validation", arg, 0, RECIPE_VALIDATION_UNSAID - 1);
		a->given |= GIVEN_VALIDATION;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_metrics(int key, char *arg, struct argp_state *state, struct train_args *a)
{
	struct metrics_options *m = &a->metrics;

	switch (key) {
	case KEY_LOG:
		m->log = arg_file(state, "log", arg);
		return 0;
	case KEY_LOG_EVERY:
		m->log_every = arg_count(state, "log-every", arg, 1, INT64_MAX);
		return 0;
	case KEY_LOG_FORMAT:
		if (metrics_format_find(arg, &m->format) < 0)
			argp_error(state, "--log-format '%s' is not one of: text, tf, json", arg);
		a->train.validate_every = m->format == METRICS_TF ? METRICS_TF_EVERY : 0;
		return 0;
	case KEY_LOAD_EVERY:
		m->load_every = arg_number(state, "load-every", arg, 0, 86400);
		return 0;
	case KEY_TENSORBOARD:
		m->tensorboard = arg_file(state, "tensorboard", arg);
		return 0;
	case 'q':
		m->quiet = 1;
		return 0;
	case 'v':
		a->verbose = 1;
		return 0;
	default:
		return parse_recipe(key, arg, state, a);
	}
}

static error_t parse_lifecycle(int key, char *arg, struct argp_state *state, struct train_args *a)
{
	static const char *const usr1[] = { "stop", "continue", NULL };
	struct train_options *t = &a->train;

	switch (key) {
	case KEY_CHECKPOINT:
		t->checkpoint = arg_file(state, "checkpoint", arg);
		return 0;
	case KEY_CHECKPOINT_EVERY:
		parse_every(state, arg, t);
		return 0;
	case KEY_KEEP_BEST:
		t->best = arg_file(state, "keep-best", arg);
		return 0;
	case KEY_RESUME:
		a->wants_resume = 1;
		a->resume = arg ? arg_file(state, "resume", arg) : NULL;
		return 0;
	case KEY_ON_USR1:
		a->usr1_continues = arg_word(state, "on-usr1", arg, usr1);
		return 0;
	case KEY_TARGET_ACCURACY:
		t->target_accuracy = arg_accuracy(state, "target-accuracy", arg);
		return 0;
	case KEY_MAX_TIME:
		t->max_seconds = arg_seconds(state, "max-time", arg);
		return 0;
	case KEY_STEPS:
		t->steps = arg_count(state, "steps", arg, 1, INT64_MAX);
		return 0;
	default:
		return parse_metrics(key, arg, state, a);
	}
}

static error_t parse_engine(int key, char *arg, struct argp_state *state, struct train_args *a)
{
	static const char *const normalize[] = { "fixed", "dataset", NULL };
	static const char *const scale[] = { "none", "linear", "sqrt", NULL };
	struct train_options *t = &a->train;

	switch (key) {
	case 't':
		t->threads = arg_threads(state, arg);
		a->given |= GIVEN_THREADS;
		return 0;
	case KEY_BACKEND:
		t->backend = arg_backend(state, arg);
		a->given |= GIVEN_BACKEND;
		return 0;
	case KEY_DTYPE:
		t->dtype = arg_dtype(state, arg);
		a->given |= GIVEN_DTYPE;
		return 0;
	case KEY_ISA:
		arg_isa(state, arg);
		return 0;
	case KEY_TUNE:
		setenv("MLTRAIN_TUNE", "1", 1); /* the plugin's (backend/cuda/product/tune.h) */
		return 0;
	case KEY_DETERMINISTIC:
		t->deterministic = 1;
		return 0;
	case KEY_NORMALIZE:
		a->normalize = (enum normalize)arg_word(state, "normalize", arg, normalize);
		a->given |= GIVEN_NORMALIZE;
		return 0;
	case KEY_LR_SCALE:
		a->lr_scale = (enum lr_scale)arg_word(state, "lr-scale", arg, scale);
		return 0;
	case KEY_DROPOUT:
		a->dropout = arg_number(state, "dropout", arg, 0, 0.99);
		return 0;
	case KEY_INPUT:
		a->input = parse_input(state, arg);
		return 0;
	case KEY_DATA_MEMORY:
		a->data_memory = (size_t)arg_count(state, "data-memory", arg, 1, 1 << 24) << 20;
		return 0;
	default:
		return parse_lifecycle(key, arg, state, a);
	}
}

struct named_file {
	const char *option, *file;
};

/* Would keeping a file as FILE~ (file_keep()) replace the other file? */
static int keeping_replaces(const struct named_file *f, const struct named_file *other)
{
	auto_free char *kept = xasprintf("%s~", f->file);

	return access(f->file, F_OK) == 0 && file_is_same(kept, other->file) &&
		!file_is_same(f->file, other->file);
}

/* Refuse one file for two outputs: one would replace the other. */
static void check_apart(
	struct argp_state *state, const struct named_file *a, const struct named_file *b)
{
	if (a->file && b->file && file_is_same(a->file, b->file))
		argp_error(state, "--%s and --%s are one file, '%s': give each its own", a->option,
			b->option, a->file);
}

static void check_kept(
	struct argp_state *state, const struct named_file *whole, const struct named_file *b)
{
	if (whole->file && b->file && keeping_replaces(whole, b))
		argp_error(state,
			"--%s: '%s' is where what '%s' has now would be kept: move one of them, or "
			"give --%s another file",
			b->option, b->file, whole->file, whole->option);
}

static void check_files(struct argp_state *state, const struct train_args *a)
{
	const struct named_file checkpoint = { "checkpoint", a->train.checkpoint };
	const struct named_file best = { "keep-best", a->train.best };
	const struct named_file log = { "log", a->metrics.log };
	const struct named_file resume = { "resume", a->resume };

	check_apart(state, &checkpoint, &best);
	check_apart(state, &checkpoint, &log);
	check_apart(state, &best, &log);

	check_kept(state, &checkpoint, &best);
	check_kept(state, &checkpoint, &log);
	check_kept(state, &checkpoint, &resume);
	check_kept(state, &best, &checkpoint);
	check_kept(state, &best, &log);
	check_kept(state, &best, &resume);
}

static void check_elastic(struct argp_state *state, struct train_args *a)
{
	struct elastic_options *e = &a->elastic;

	if (!e->where && (e->secret_file || e->min || e->max))
		argp_error(state, "--%s is for ranks that come and go: give --elastic too",
			e->secret_file   ? "elastic-secret"
				: e->min ? "min-ranks"
					 : "max-ranks");
	e->min = e->min ? e->min : 1;
	e->max = e->max ? e->max : e->min > ELASTIC_RANKS ? e->min : ELASTIC_RANKS;
	if (e->min > e->max)
		argp_error(state, "--min-ranks %d is more than --max-ranks %d", e->min, e->max);
	if (e->where && e->secret_file && !elastic_is_address(e->where))
		argp_error(state,
			"--elastic-secret is for --elastic HOST:PORT; a file holds its own secret");
	if (e->where && a->train.backend == &backend_auto)
		a->train.backend = backend_of_cpu();
	if (e->where && strcmp(a->train.backend->name, "cuda") == 0)
		argp_error(state,
			"--elastic does not work with the backend cuda: give --backend onednn, or "
			"train on several GPUs under mpirun");
}

static void check_whole(struct argp_state *state, struct train_args *a)
{
	struct train_options *t = &a->train;

	if (!a->data)
		argp_error(state,
			"which data set? give --data DIR, --data mnist or --data fashion-mnist");
	if (a->lr_scale != LR_SCALE_NONE && a->given & GIVEN_LR)
		argp_error(state,
			"--lr says the rate itself, --lr-scale makes it from the "
			"description's: give one of them");
	if (a->wants_resume && !a->resume)
		a->resume = t->checkpoint;
	if (a->wants_resume && !a->resume)
		argp_error(state,
			"--resume: from which file? give --checkpoint FILE or "
			"--resume=FILE");
	if (a->wants_resume && !t->checkpoint)
		t->checkpoint = a->resume;
	if (!t->checkpoint && (t->save_steps || t->save_seconds > 0))
		argp_error(state, "--checkpoint-every needs --checkpoint FILE");
	check_files(state, a);
}

static error_t parse_elastic(int key, char *arg, struct argp_state *state, struct train_args *a)
{
	struct elastic_options *e = &a->elastic;

	switch (key) {
	case KEY_ELASTIC:
		e->where = arg_file(state, "elastic", arg);
		return 0;
	case KEY_ELASTIC_SECRET:
		e->secret_file = arg_file(state, "elastic-secret", arg);
		return 0;
	case KEY_MIN_RANKS:
		e->min = (int)arg_count(state, "min-ranks", arg, 1, GROUP_MAX);
		return 0;
	case KEY_MAX_RANKS:
		e->max = (int)arg_count(state, "max-ranks", arg, 1, GROUP_MAX);
		return 0;
	default:
		return parse_engine(key, arg, state, a);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct train_args *a = state->input;

	switch (key) {
	case 'd':
		a->data = arg_file(state, "data", arg);
		return 0;
	case 'n':
		a->net = arg_file(state, "net", arg);
		a->given |= GIVEN_NET;
		return 0;
	case KEY_SEED:
		a->train.seed = arg_count(state, "seed", arg, 0, INT64_MAX);
		a->given |= GIVEN_SEED;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option; the data set is given with --data", arg);
		return 0;
	case ARGP_KEY_END:
		check_whole(state, a);
		check_elastic(state, a);
		return 0;
	default:
		return parse_elastic(key, arg, state, a);
	}
}

static const struct argp argp = { options, parse, NULL,
	"Train a network on a data set and test it. SIGTERM, SIGHUP, SIGINT and SIGUSR1 end training "
	"after the current step, with a checkpoint." };

void train_args_parse(int argc, char **argv, struct train_args *ret)
{
	*ret = (struct train_args){ .train = TRAIN_OPTIONS_INIT,
		.metrics = METRICS_OPTIONS_INIT,
		.net = "reference",
		.dropout = -1 };
	ret->train.backend = backend_find("auto");
	arg_check_spelling(argv, options);
	argp_parse(&argp, argc, argv, 0, NULL, ret);
}

static void scale_lr(const struct train_args *a, int batch, struct recipe *r)
{
	double factor = (double)r->batch / batch;

	if (a->lr_scale == LR_SCALE_NONE || r->batch == batch)
		return;
	r->lr *= a->lr_scale == LR_SCALE_LINEAR ? factor : sqrt(factor);
	/* A large rate at the first step makes training diverge: climb to it. */
	if (factor > 1 && r->schedule.warmup <= 0 && !(a->given & GIVEN_WARMUP) &&
		r->schedule.kind != SCHEDULE_ONE_CYCLE)
		r->schedule.warmup = fmin(5, r->epochs / 20.0);
}

int train_args_apply(const struct train_args *a, struct recipe *r, struct mlr_error *err)
{
	const struct recipe *said = &a->train.recipe;
	int batch = r->batch;

	if (a->given & GIVEN_EPOCHS)
		r->epochs = said->epochs;
	if (a->given & GIVEN_BATCH)
		r->batch = said->batch;
	if (a->given & GIVEN_LR)
		r->lr = said->lr;
	if (a->given & GIVEN_OPTIMISER)
		r->optimiser = said->optimiser;
	if (a->given & GIVEN_MOMENTUM)
		r->momentum = said->momentum;
	if (a->given & GIVEN_L2)
		r->l2 = said->l2;
	if (a->given & GIVEN_SMOOTHING)
		r->smoothing = said->smoothing;
	if (a->given & GIVEN_SCHEDULE) {
		double warmup = r->schedule.warmup;

		r->schedule = said->schedule;
		r->schedule.warmup = warmup;
	}
	if (a->given & GIVEN_WARMUP)
		r->schedule.warmup = said->schedule.warmup;
	if (a->given & GIVEN_WARMUP && said->schedule.warmup > 0 &&
		r->schedule.kind == SCHEDULE_ONE_CYCLE) {
		mlr_fail(err, EINVAL,
			"--warmup %g: the schedule is one-cycle, which climbs by itself",
			said->schedule.warmup);
		return mlr_hint(
			err, "--schedule one-cycle,rise=X says for what share of all steps");
	}
	if (a->given & GIVEN_AUGMENT)
		r->augment = said->augment;
	if (a->given & GIVEN_VALIDATION)
		r->validation = said->validation;
	scale_lr(a, batch, r);
	return 0;
}
