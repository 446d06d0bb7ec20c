/* mltrain export: writes a checkpoint as a file that other programs run. */
#include "cli/mltrain.h"

#include "base/base.h"
#include "model/checkpoint.h"
#include "model/onnx.h"
#include "model/state_dict.h"

enum format { FORMAT_ONNX, FORMAT_SAFETENSORS };

struct args {
	const char *checkpoint, *out, *map;
	enum format format;
};

enum { KEY_CHECKPOINT = 256, KEY_FORMAT, KEY_MAP };

static const struct argp_option options[] = { { "checkpoint", KEY_CHECKPOINT, "FILE", 0,
						      "a checkpoint of mltrain train", 1 },
	{ "format", KEY_FORMAT, "FORMAT", 0,
		"onnx, or safetensors, the weights for PyTorch's load_state_dict() (onnx)", 1 },
	{ "map", KEY_MAP, "FILE", 0,
		"a JSON object of modules and the layers that they get their weights from, as of "
		"mltrain import",
		1 },
	{ 0 } };

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const formats[] = { "onnx", "safetensors", NULL };
	struct args *a = state->input;

	switch (key) {
	case KEY_CHECKPOINT:
		a->checkpoint = arg;
		return 0;
	case KEY_FORMAT:
		a->format = (enum format)arg_word(state, "format", arg, formats);
		return 0;
	case KEY_MAP:
		a->map = arg_file(state, "map", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (a->out)
			argp_error(state, "'%s' is one file too many", arg);
		a->out = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->checkpoint)
			argp_error(state, "which weights? give --checkpoint FILE");
		if (!a->out)
			argp_error(
				state, "where to? name the file to write, for instance net.onnx");
		if (a->map && a->format != FORMAT_SAFETENSORS)
			argp_error(state, "--map needs --format safetensors");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = { options, parse, "OUT",
	"Write a checkpoint's network as ONNX, for ONNX Runtime and others, or its weights alone for "
	"PyTorch. The ONNX model's input is pixels from 0 to 255; its outputs are logits and "
	"probabilities." };

static int build(const struct args *a, const struct checkpoint *c, char **ret, size_t *len,
	struct mlr_error *err)
{
	json_auto_t *map = NULL;

	TRY(a->map ? state_dict_map_read(a->map, &map, err) : 0);
	if (a->format == FORMAT_SAFETENSORS)
		return state_dict_build(c->net, map, c->params, c->states, ret, len, err);
	return onnx_build(c->net, c->params, c->states, &c->norm, c->names, ret, len, err);
}

static int run(const struct args *a, struct mlr_error *err)
{
	auto_call(checkpoint_done) struct checkpoint c = CHECKPOINT_INIT;
	auto_free char *model = NULL;
	char input[SHAPE_TEXT_MAX];
	size_t len;
	int r;

	if (file_is_same(a->out, a->checkpoint))
		return mlr_fail(
			err, EEXIST, "'%s' is the checkpoint itself, not overwriting it", a->out);
	if (a->map && file_is_same(a->out, a->map))
		return mlr_fail(err, EEXIST, "'%s' is the map, not overwriting it", a->out);
	TRY(checkpoint_read(a->checkpoint, &c, err));
	r = build(a, &c, &model, &len, err);
	if (r < 0)
		return mlr_wrap(err, "export checkpoint '%s'", a->checkpoint);
	r = file_put(a->out, model, len, 0666, err);
	if (r < 0)
		return mlr_wrap(err, "export checkpoint '%s' to '%s'", a->checkpoint, a->out);
	printf("%s: network %s, images of %s, %d classes, %zu bytes\n", a->out, c.net->name,
		shape_text(&c.net->input, input), c.net->classes, len);
	return 0;
}

int cmd_export(int argc, char **argv)
{
	struct args a = { NULL };
	struct mlr_error err = MLR_ERROR_INIT;
	char name[] = "mltrain export";

	argv[0] = name;
	arg_check_spelling(argv, options);
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
