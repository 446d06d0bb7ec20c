/* mltrain import: makes a checkpoint of a network's weights in PyTorch's form. */
#include "cli/mltrain.h"

#include "base/escape.h"
#include "base/json.h"
#include "cli/arg.h"
#include "model/checkpoint.h"
#include "model/net_file.h"
#include "model/state_dict.h"

#define TOLD_MAX 50 /* problems: a file of strangers' may have any number */

struct args {
	const char *from, *out, *net, *map;
	struct net_wish wish;
	struct numbers {
		float v[IMAGE_CHANNELS_MAX];
		int n; /* given */
	} mean, std;
	int quiet;
};

/* Parse a number for each channel, or one for all. */
static void parse_channels(
	struct numbers *ret, char *arg, struct argp_state *state, const char *option, double min)
{
	auto_free char *copy = xstrdup(arg);
	char *rest = copy, *s;

	ret->n = 0;
	while ((s = strsep(&rest, ","))) {
		if (ret->n == IMAGE_CHANNELS_MAX)
			argp_error(state, "--%s '%s' has more than %d numbers", option, arg,
				IMAGE_CHANNELS_MAX);
		ret->v[ret->n++] = (float)options_real(state, option, s, min, 1e6);
	}
	for (int i = ret->n; i < IMAGE_CHANNELS_MAX; i++)
		ret->v[i] = ret->v[0];
}

static void parse_mean(void *field, char *arg, struct argp_state *state)
{
	parse_channels(field, arg, state, "mean", -1e6);
}

static void parse_std(void *field, char *arg, struct argp_state *state)
{
	parse_channels(field, arg, state, "std", 1e-6);
}

static const struct option_row options[] = {
	{ "net", 'n', "NAME", 0, "the network: a shipped one's name or a JSON file", 1,
		OPT_FILE(struct args, net) },
	{ "map", 0, "FILE", 0, "a JSON object of modules and the layers that take their weights", 1,
		OPT_FILE(struct args, map) },
	{ "mean", 0, "X[,X...]", 0,
		"mean of each channel that was taken off pixels from 0 to 1 (0)", 1,
		OPT_PARSE(struct args, mean, parse_mean) },
	{ "std", 0, "X[,X...]", 0, "deviation that they were then divided by (1)", 1,
		OPT_PARSE(struct args, std, parse_std) },
	{ "output", 'o', "FILE", 0, "the checkpoint to write", 1, OPT_FILE(struct args, out) },
	{ "quiet", 'q', NULL, 0, "do not print which layer takes which module", 2,
		OPT(struct args, quiet) },
	{ 0 }
};

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (!a->net)
		argp_error(state, "of which network? give --net NAME or FILE");
	if (!a->out)
		argp_error(state, "where to? give -o FILE");
}

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "FILE",
	.doc = "Make a checkpoint of a state dictionary that safetensors.torch saved. A layer takes the "
	       "module that --map sends to it, the one of its name, or the one of its shapes. --mean and "
	       "--std are those of torchvision's Normalize; without them images enter as ToTensor() "
	       "makes them.",
	.shared = { { arg_net_rows, offsetof(struct args, wish) } },
	.operands = { OPT(struct args, from) },
	.needed = 1,
	.missing = "which weights? name a safetensors file",
	.surplus = "one file too many",
	.check = check,
};

/* (pixel / 255 - mean) / std, as (pixel - mean * 255) / (std * 255). */
static int set_norm(const struct args *a, struct checkpoint *c, struct mlr_error *err)
{
	int channels = c->net->input.dim[0];

	if (channels > IMAGE_CHANNELS_MAX)
		return mlr_fail(err, EINVAL, "network '%s' reads images of %d channels; at most %d",
			c->net->name, channels, IMAGE_CHANNELS_MAX);
	if ((a->mean.n > 1 && a->mean.n != channels) || (a->std.n > 1 && a->std.n != channels))
		return mlr_fail(err, EINVAL,
			"network '%s' reads images of %d channels: --mean and --std need one number, "
			"or as many",
			c->net->name, channels);
	for (int i = 0; i < channels; i++) {
		c->norm.mean[i] = 255 * a->mean.v[i];
		c->norm.scale[i] = 255 * a->std.v[i];
	}
	return 0;
}

static int take(const struct args *a, const struct safetensors *st, struct checkpoint *c,
	struct mlr_error *err)
{
	json_auto_t *map = NULL;
	struct state_dict_words words = { STRV_INIT, STRV_INIT };
	int r;

	TRY(a->map ? state_dict_map_read(a->map, &map, err) : 0);
	c->params = calloc(c->net->params + 1, sizeof(float));
	c->states = calloc(c->net->states + 1, sizeof(float));
	if (!c->params || !c->states)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory",
			(c->net->params + c->net->states) * sizeof(float));
	r = state_dict_take(st, c->net, map, c->params, c->states, &words, err);
	for (size_t i = 0; i < words.problems.n && i < TOLD_MAX; i++)
		mlr_warning("%s", words.problems.v[i]);
	if (words.problems.n > TOLD_MAX)
		mlr_warning("and %zu more such tensors", words.problems.n - TOLD_MAX);
	for (size_t i = 0; r == 0 && !a->quiet && i < words.matches.n; i++) {
		escape_print(stdout, words.matches.v[i]);
		putchar('\n');
	}
	strv_done(&words.matches);
	strv_done(&words.problems);
	if (r < 0)
		mlr_hint(err,
			"--map FILE says which module is which layer; --input, --classes and the "
			"description give layers their shapes");
	return r;
}

static int write_checkpoint(const struct args *a, struct checkpoint *c, const struct recipe *recipe,
	struct mlr_error *err)
{
	c->recipe = mlr_json_print(recipe_json(recipe), JSON_COMPACT | JSON_REAL_PRECISION(17));
	c->batch = recipe->batch;
	c->ranks = c->threads = 1;
	c->seed = 1;
	c->best_error = -1;
	return checkpoint_write(a->out, c, err);
}

static int run(const struct args *a, struct mlr_error *err)
{
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	auto_call(safetensors_done) struct safetensors st = { 0 };
	auto_free char *buf = NULL;
	char input[SHAPE_TEXT_MAX];
	struct recipe recipe;
	size_t len;
	int r;

	if (file_is_same(a->out, a->from))
		return mlr_fail(
			err, EEXIST, "'%s' is the file to read, not overwriting it", a->out);
	if ((a->map && file_is_same(a->out, a->map)) || file_is_same(a->out, a->net))
		return mlr_fail(err, EEXIST, "'%s' is the %s, not overwriting it", a->out,
			a->map && file_is_same(a->out, a->map) ? "map" : "network");
	if (file_read(AT_FDCWD, a->from, CHECKPOINT_MAX, &buf, &len, err) < 0)
		return mlr_wrap(err, "import");
	r = safetensors_parse(buf, len, &st, err);
	if (r < 0)
		return mlr_wrap(err, "import '%s'", a->from);
	if ((r = net_read(a->net, &a->wish, &c.net, &recipe, err)) < 0 ||
		(r = set_norm(a, &c, err)) < 0 ||
		(r = checkpoint_check_size(c.net, OPTIMISER_SGD, err)) < 0)
		return r;
	if (take(a, &st, &c, err) < 0)
		return mlr_wrap(err, "import '%s'", a->from);
	TRY(write_checkpoint(a, &c, &recipe, err));
	printf("%s: network %s, images of %s, %d classes, %zu parameters\n", a->out, c.net->name,
		shape_text(&c.net->input, input), c.net->classes, c.net->params);
	return 0;
}

int cmd_import(int argc, char **argv)
{
	struct args a = { .wish = NET_WISH_ANYTHING, .std = { { 1, 1, 1, 1 } } };
	struct mlr_error err = MLR_ERROR_INIT;

	options_parse("mltrain import", argc, argv, &syntax, &a);
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
