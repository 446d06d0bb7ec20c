/* mltrain export: writes a checkpoint as a file that other programs run. */
#include "cli/mltrain.h"

#include "model/checkpoint.h"
#include "model/onnx.h"
#include "model/state_dict.h"

enum format { FORMAT_ONNX, FORMAT_SAFETENSORS };

struct args {
	const char *checkpoint, *out, *map;
	enum format format;
};

static const char *const formats[] = { "onnx", "safetensors", NULL };

static const struct option_row options[] = { { "checkpoint", 0, "FILE", 0,
						     "a checkpoint of mltrain train", 1,
						     OPT(struct args, checkpoint) },
	{ "format", 0, "FORMAT", 0,
		"onnx, or safetensors, the weights for PyTorch's load_state_dict() (onnx)", 1,
		OPT_WORD(struct args, format, formats) },
	{ "map", 0, "FILE", 0,
		"a JSON object of modules and the layers that they get their weights from, as of "
		"mltrain import",
		1, OPT_FILE(struct args, map) },
	{ 0 } };

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (!a->checkpoint)
		argp_error(state, "which weights? give --checkpoint FILE");
	if (a->map && a->format != FORMAT_SAFETENSORS)
		argp_error(state, "--map needs --format safetensors");
}

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "OUT",
	.doc = "Write a checkpoint's network as ONNX, for ONNX Runtime and others, or its weights alone for "
	       "PyTorch. The ONNX model's input is pixels from 0 to 255; its outputs are logits and "
	       "probabilities.",
	.operands = { OPT(struct args, out) },
	.needed = 1,
	.missing = "where to? name the file to write, for instance net.onnx",
	.surplus = "one file too many",
	.check = check,
};

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
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	auto_free char *model = NULL;
	char input[SHAPE_TEXT_MAX];
	size_t len;

	if (file_is_same(a->out, a->checkpoint))
		return mlr_fail(
			err, EEXIST, "'%s' is the checkpoint itself, not overwriting it", a->out);
	if (a->map && file_is_same(a->out, a->map))
		return mlr_fail(err, EEXIST, "'%s' is the map, not overwriting it", a->out);
	TRY(checkpoint_read(a->checkpoint, &c, err));
	if (build(a, &c, &model, &len, err) < 0)
		return mlr_wrap(err, "export checkpoint '%s'", a->checkpoint);
	if (file_put(a->out, model, len, 0666, err) < 0)
		return mlr_wrap(err, "export checkpoint '%s' to '%s'", a->checkpoint, a->out);
	printf("%s: network %s, images of %s, %d classes, %zu bytes\n", a->out, c.net->name,
		shape_text(&c.net->input, input), c.net->classes, len);
	return 0;
}

int cmd_export(int argc, char **argv)
{
	struct args a = { NULL };
	struct mlr_error err = MLR_ERROR_INIT;

	options_parse("mltrain export", argc, argv, &syntax, &a);
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
