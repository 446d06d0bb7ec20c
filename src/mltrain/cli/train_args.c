#include "cli/train_args.h"

#include "cli/arg.h"
#include "cli/mltrain.h"
#include "optimiser/optimiser.h"
#include "train/cpus.h"

#include <argp.h>

/*
 * Parses options of mltrain train that have a syntax of their own. Errors end the program as
 * argp_error(3) does.
 */

/* --augment, a struct augment_policy: "none" or a part of "shift=PIXELS,flip,cutout=PIXELS". */
static void recipe_arg_augment(void *field, char *arg, struct argp_state *state)
{
	enum { SHIFT, FLIP, CUTOUT, NONE };
	char *const words[] = { (char *)"shift", (char *)"flip", (char *)"cutout", (char *)"none",
		NULL };
	struct augment_policy *ret = field;
	auto_free char *copy = xstrdup(arg);
	char *at = copy, *value;

	*ret = (struct augment_policy){ 0 };
	while (*at) {
		int which = getsubopt(&at, words, &value);

		if ((which == SHIFT || which == CUTOUT) && !value)
			argp_error(state, "--augment %s=PIXELS needs a number", words[which]);
		else if (which == SHIFT)
			ret->shift = (int)options_count(state, "augment shift", value, 0, 127);
		else if (which == CUTOUT)
			ret->cut = (int)options_count(state, "augment cutout", value, 0, 255);
		else if (which == FLIP && !value)
			ret->flip = 1;
		else if (which != NONE || value)
			argp_error(state,
				"--augment '%s' is not none, shift=PIXELS, flip or cutout=PIXELS",
				arg);
	}
}

/* Parse "3:6.5", the epochs of a schedule of steps. */
static json_t *numbers(struct argp_state *state, const char *key, char *text)
{
	json_t *array = json_array();
	char *save;

	for (char *s = strtok_r(text, ":", &save); s; s = strtok_r(NULL, ":", &save))
		json_array_append_new(array, json_real(options_real(state, key, s, 0, 1e9)));
	return array;
}

/* Add "final=0.1" to the object. */
static void add_member(struct argp_state *state, const char *arg, char *member, json_t *object)
{
	char *value = strchr(member, '=');
	auto_free char *key = NULL;

	if (!value)
		argp_error(state, "--schedule '%s': '%s' is not KEY=NUMBER", arg, member);
	*value++ = '\0';
	if (strcmp(member, "kind") == 0 || strcmp(member, "warmup") == 0)
		argp_error(state, "--schedule '%s' has no '%s'%s", arg, member,
			*member == 'w' ? "; give --warmup" : "");
	key = xasprintf("schedule %s", member);
	json_object_set_new(object, member,
		strcmp(member, "at") == 0 ? numbers(state, key, value)
					  : json_real(options_real(state, key, value, 0, 1e9)));
}

/*
 * --schedule, a struct schedule: "KIND[,KEY=NUMBER...]", at=E:E:E for several numbers. Keys, limits
 * and defaults are those of a description's schedule (model/recipe.h), so that checkpoints can
 * contain it. The field keeps its warm-up.
 */
static void recipe_arg_schedule(void *field, char *arg, struct argp_state *state)
{
	struct schedule *ret = field;
	auto_free char *copy = xstrdup(arg);
	json_auto_t *object = json_object();
	struct mlr_error err = MLR_ERROR_INIT;
	double warmup = ret->warmup;
	char *save, *kind = strtok_r(copy, ",", &save);

	json_object_set_new(object, "kind", json_string(kind ? kind : ""));
	for (char *m = strtok_r(NULL, ",", &save); kind && m; m = strtok_r(NULL, ",", &save))
		add_member(state, arg, m, object);
	if (recipe_schedule_parse(object, ret, &err) < 0)
		argp_error(state, "--schedule '%s': %s", arg, err.text);
	ret->warmup = warmup;
}

static const char *const normalizations[] = { "fixed", "dataset", NULL };
static const char *const scales[] = { "none", "linear", "sqrt", NULL };
static const char *const usr1[] = { "stop", "continue", NULL };
static const char *const formats[] = {
	[METRICS_TEXT] = "text", [METRICS_TF] = "tf", [METRICS_JSON] = "json", NULL
};

/* --- options with a syntax of their own ------------------------------------------------------ */

/* The size that pictures, gray or of three colours, are scaled to. */
static void parse_input(void *field, char *arg, struct argp_state *state)
{
	const struct shape *s = field;

	arg_input(field, arg, state);
	if ((s->dim[0] != 1 && s->dim[0] != 3) || s->dim[1] > 65536 || s->dim[2] > 65536)
		argp_error(state,
			"--input '%s': pictures have 1 or 3 channels and 65536 rows and columns "
			"at most",
			arg);
}

/* A bare number counts steps; one with a unit is a duration. */
static void parse_every(void *args, char *arg, struct argp_state *state)
{
	struct train_options *t = &((struct train_args *)args)->train;

	size_t n = strlen(arg);

	if (n && strchr("smhdw", arg[n - 1]))
		t->save_seconds = options_seconds(state, "checkpoint-every", arg, 1e9);
	else
		t->save_steps = options_count(state, "checkpoint-every", arg, 1, INT64_MAX);
}

static void parse_accuracy(void *field, char *arg, struct argp_state *state)
{
	double percent = options_real(state, "target-accuracy", arg, 0, 100);

	if (percent > 0 && percent < 1)
		argp_error(state, "--target-accuracy %s is less than one per cent: is %g meant?",
			arg, 100 * percent);
	*(double *)field = percent / 100;
}

static void parse_resume(void *args, char *arg, struct argp_state *state)
{
	struct train_args *a = args;

	a->wants_resume = 1;
	a->resume = arg ? options_file(state, "resume", arg) : NULL;
}

static void parse_log_format(void *args, char *arg, struct argp_state *state)
{
	struct train_args *a = args;

	a->metrics.format = (enum metrics_format)options_word(state, "log-format", arg, formats);
	a->train.validate_every = a->metrics.format == METRICS_TF ? METRICS_TF_EVERY : 0;
}

static void parse_lr_decay(void *args, char *arg, struct argp_state *state)
{
	struct schedule *s = &((struct train_args *)args)->train.recipe.schedule;

	s->kind = SCHEDULE_EXPONENTIAL;
	s->decay = options_real(state, "lr-decay", arg, 0, 1);
}

static void parse_optimiser(void *field, char *arg, struct argp_state *state)
{
	const char *names[OPTIMISERS + 1] = { NULL };

	for (size_t i = 0; i < OPTIMISERS; i++)
		names[i] = optimisers[i].name;
	*(int *)field = options_word(state, "optimiser", arg, names);
}

/* A number of the recipe's, from 0 on. */
#define RATE(field, max) OPT_NUMBER(struct train_args, train.recipe.field, 0, max)

static const struct option_row options[] = { { NULL, 0, NULL, 0,
						     "Data, network and length of training:", 1 },
	{ "data", 'd', "DIR", 0,
		"the data set: a directory of IDX files, CIFAR's or pictures, or a name such as "
		"fashion-mnist",
		1, OPT_FILE(struct train_args, data) },
	{ "net", 'n', "NAME", 0, "the network: a shipped one's name or a JSON file (reference)", 1,
		OPT_FILE(struct train_args, net), GIVEN_NET },
	{ "input", 0, "CxHxW", 0, "size to which pictures in folders are scaled", 1,
		OPT_PARSE(struct train_args, input, parse_input) },
	{ "data-memory", 0, "MIB", 0, "memory for pictures; others are decoded when needed (2048)",
		1, OPT_COUNT_OF(struct train_args, data_memory, 1, 1 << 24, 1 << 20) },
	{ "normalize", 0, "HOW", 0,
		"normalisation of pixels: fixed, (byte - 127.5) / 255, or dataset, by the mean and "
		"deviation of the training images (fixed)",
		1, OPT_WORD(struct train_args, normalize, normalizations), GIVEN_NORMALIZE },
	{ "epochs", 'e', "N", 0, "passes over the training images (the description's, 10)", 1,
		OPT_COUNT(struct train_args, train.recipe.epochs, 1, 1000000), GIVEN_EPOCHS },
	{ "steps", 0, "N", 0, "end after N steps even if epochs are left", 1,
		OPT_COUNT(struct train_args, train.steps, 1, INT64_MAX) },
	{ "batch", 'b', "N", 0, "images of a step, on all ranks together (64)", 1,
		OPT_COUNT(struct train_args, train.recipe.batch, 1, RECIPE_BATCH_MAX),
		GIVEN_BATCH },
	{ "seed", 0, "N", 0, "seed of the random numbers (1); runs with one seed are equal", 1,
		OPT_COUNT(struct train_args, train.seed, 0, INT64_MAX), GIVEN_SEED },
	{ "target-accuracy", 0, "P", 0,
		"end when an epoch's validation accuracy reaches P %; without validation images, its "
		"test accuracy",
		1, OPT_PARSE(struct train_args, train.target_accuracy, parse_accuracy) },
	{ "max-time", 0, "TIME", 0,
		"end within this time, checkpoint included: 90, 90s, 30m, 8h, 2d", 1,
		OPT_SECONDS(struct train_args, train.max_seconds, 1e9) },

	{ NULL, 0, NULL, 0, "Computation:", 2 },
	{ "backend", 0, "NAME", 0, "one that mltrain --version lists, or auto (auto)", 2,
		OPT_PARSE(struct train_args, train.backend, arg_backend), GIVEN_BACKEND },
	{ "dtype", 0, "TYPE", 0, "f32, bf16 or tf32 (f32)", 2,
		OPT_PARSE(struct train_args, train.dtype, arg_dtype), GIVEN_DTYPE },
	{ "threads", 't', "N", 0, "threads of this rank (one for each usable CPU)", 2,
		OPT_COUNT(struct train_args, train.threads, 1, ARG_THREADS_MAX), GIVEN_THREADS },
	{ "isa", 0, "NAME", 0,
		"no wider instructions of the CPU than sse4, avx2, avx512, avx512-bf16, amx", 2,
		OPT_CALL(arg_isa) },
	{ "deterministic", 0, NULL, 0, "give the same bits each time on a GPU too, even if slower",
		2, OPT(struct train_args, train.deterministic) },

	{ NULL, 0, NULL, 0, "Checkpoints:", 3 },
	{ "checkpoint", 0, "FILE", 0, "write the weights to FILE after every epoch, as safetensors",
		3, OPT_FILE(struct train_args, train.checkpoint) },
	{ "checkpoint-every", 0, "N", 0, "write it every N steps too, or by time: 90s, 10m", 3,
		OPT_CALL(parse_every) },
	{ "keep-best", 0, "FILE", 0, "write the weights with the lowest validation error to FILE",
		3, OPT_FILE(struct train_args, train.best) },
	{ "resume", 0, "FILE", OPTION_ARG_OPTIONAL,
		"continue from FILE (the one of --checkpoint); start anew if it does not exist", 3,
		OPT_CALL(parse_resume) },
	{ "on-usr1", 0, "WHAT", 0, "stop or continue after SIGUSR1 and its checkpoint (stop)", 3,
		OPT_WORD(struct train_args, usr1_continues, usr1) },

	{ NULL, 0, NULL, 0, "Ranks that come and go:", 6 },
	{ "elastic", 0, "FILE|HOST:PORT", 0,
		"begin a run that other processes of this command join, or join it; they meet by "
		"FILE, or at HOST:PORT",
		6, OPT_FILE(struct train_args, elastic.where) },
	{ "min-ranks", 0, "N", 0, "wait while there are fewer ranks (1)", 6,
		OPT_COUNT(struct train_args, elastic.min, 1, GROUP_MAX) },
	{ "max-ranks", 0, "N", 0,
		"have further ranks wait for a place (4, or --min-ranks if that is more)", 6,
		OPT_COUNT(struct train_args, elastic.max, 1, GROUP_MAX) },
	{ "elastic-secret", 0, "FILE", 0,
		"the secret of --elastic HOST:PORT ($MLTRAIN_ELASTIC_SECRET)", 6,
		OPT_FILE(struct train_args, elastic.secret_file) },

	{ NULL, 0, NULL, 0, "Output:", 4 },
	{ "log", 0, "FILE", 0, "append records to FILE as JSON lines", 4,
		OPT_FILE(struct train_args, metrics.log) },
	{ "log-every", 0, "N", 0, "steps between two step records (10)", 4,
		OPT_COUNT(struct train_args, metrics.log_every, 1, INT64_MAX) },
	{ "log-format", 0, "FORM", 0,
		"format of standard output: text, tf (the tutorial's lines) or json (the log's) (text)",
		4, OPT_CALL(parse_log_format) },
	{ "load-every", 0, "S", 0, "seconds between two records of CPU and GPU load; 0: none (2)",
		4, OPT_NUMBER(struct train_args, metrics.load_every, 0, 86400) },
	{ "tensorboard", 0, "DIR", 0, "write TensorBoard's event files to DIR", 4,
		OPT_FILE(struct train_args, metrics.tensorboard) },
	{ "quiet", 'q', NULL, 0, "print only the result", 4,
		OPT(struct train_args, metrics.quiet) },
	{ "verbose", 'v', NULL, 0, "print the memory plan too", 4,
		OPT(struct train_args, verbose) },

	{ NULL, 0, NULL, 0, "Recipe, overriding the description's:", 5 },
	{ "optimiser", 0, "NAME", 0, "sgd, adam or adamw (sgd)", 5,
		OPT_PARSE(struct train_args, train.recipe.optimiser, parse_optimiser),
		GIVEN_OPTIMISER },
	{ "lr", 0, "X", 0, "learning rate (0.01)", 5, RATE(lr, 1e6), GIVEN_LR },
	{ "lr-decay", 0, "X", 0,
		"factor of the rate after each epoch (0.95): --schedule exponential,decay=X", 5,
		OPT_CALL(parse_lr_decay), GIVEN_SCHEDULE },
	{ "lr-scale", 0, "HOW", 0,
		"how --batch scales the description's rate: none, linear or sqrt (none)", 5,
		OPT_WORD(struct train_args, lr_scale, scales) },
	{ "schedule", 0, "KIND[,...]", 0,
		"constant; exponential,decay=X; steps,decay=X,at=E:E...; cosine,final=X; "
		"one-cycle,start=X,rise=X,final=X",
		5, OPT_PARSE(struct train_args, train.recipe.schedule, recipe_arg_schedule),
		GIVEN_SCHEDULE },
	{ "warmup", 0, "E", 0, "epochs in which the rate rises from 0", 5,
		RATE(schedule.warmup, 1e6), GIVEN_WARMUP },
	{ "momentum", 0, "X", 0, "momentum; with adam and adamw, beta1 (0.9)", 5, RATE(momentum, 1),
		GIVEN_MOMENTUM },
	{ "l2", 0, "X", 0, "factor of the penalty on the dense layers' weights (5e-4)", 5,
		RATE(l2, 1e6), GIVEN_L2 },
	{ "label-smoothing", 0, "X", 0, "share of each label that goes to all classes alike (0)", 5,
		RATE(smoothing, 1), GIVEN_SMOOTHING },
	{ "dropout", 0, "X", 0, "share of units that every dropout layer drops (0.5)", 5,
		OPT_NUMBER(struct train_args, dropout, 0, 0.99) },
	{ "augment", 0, "WHAT", 0, "none, or some of: shift=PIXELS,flip,cutout=PIXELS", 5,
		OPT_PARSE(struct train_args, train.recipe.augment, recipe_arg_augment),
		GIVEN_AUGMENT },
	{ "validation", 0, "N", 0,
		"training images kept for validation (5000; a tenth of fewer than 50000)", 5,
		OPT_COUNT(struct train_args, train.recipe.validation, 0,
			RECIPE_VALIDATION_UNSAID - 1),
		GIVEN_VALIDATION },
	{ 0 } };

/* --- options that contradict each other --------------------------------------------------------
 */

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

static void check(void *args, struct argp_state *state)
{
	check_whole(state, args);
	check_elastic(state, args);
}

static const struct options_syntax syntax = {
	.options = options,
	.doc = "Train a network on a data set and test it. SIGTERM, SIGHUP, SIGINT and SIGUSR1 end training "
	       "after the current step, with a checkpoint.",
	.given = offsetof(struct train_args, given),
	.surplus = "not an option; the data set is given with --data",
	.check = check,
};

void train_args_parse(int argc, char **argv, struct train_args *ret)
{
	*ret = (struct train_args){ .train = TRAIN_OPTIONS_INIT,
		.metrics = METRICS_OPTIONS_INIT,
		.net = "reference",
		.dropout = -1 };
	ret->train.backend = backend_find("auto");
	options_parse("mltrain train", argc, argv, &syntax, ret);
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

/* The fields of a recipe that an option gives by itself. */
#define FIELD(bit, field)                                                                \
	{                                                                                \
		bit, offsetof(struct recipe, field), sizeof(((struct recipe *)0)->field) \
	}
static const struct {
	unsigned given;
	size_t at, size;
} fields[] = {
	FIELD(GIVEN_EPOCHS, epochs),
	FIELD(GIVEN_BATCH, batch),
	FIELD(GIVEN_LR, lr),
	FIELD(GIVEN_OPTIMISER, optimiser),
	FIELD(GIVEN_MOMENTUM, momentum),
	FIELD(GIVEN_L2, l2),
	FIELD(GIVEN_SMOOTHING, smoothing),
	FIELD(GIVEN_AUGMENT, augment),
	FIELD(GIVEN_VALIDATION, validation),
};

int train_args_apply(const struct train_args *a, struct recipe *r, struct mlr_error *err)
{
	const struct recipe *said = &a->train.recipe;
	double warmup = (a->given & GIVEN_WARMUP ? said : r)->schedule.warmup;
	int batch = r->batch;

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (a->given & fields[i].given)
			memcpy((char *)r + fields[i].at, (const char *)said + fields[i].at,
				fields[i].size);
	if (a->given & GIVEN_SCHEDULE)
		r->schedule = said->schedule;
	r->schedule.warmup = warmup;
	if (a->given & GIVEN_WARMUP && warmup > 0 && r->schedule.kind == SCHEDULE_ONE_CYCLE) {
		mlr_fail(err, EINVAL,
			"--warmup %g: the schedule is one-cycle, which has a warm-up of its own",
			warmup);
		return mlr_hint(
			err, "--schedule one-cycle,rise=X says for what share of all steps");
	}
	scale_lr(a, batch, r);
	return 0;
}
