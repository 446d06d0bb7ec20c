#include "model/onnx.h"

#include "base/json.h"
#include "config.h"
#include "model/wire.h"

#define IR_VERSION 8
#define OPSET      17

/* Numbers of fields in onnx.proto. */
enum {
	MODEL_IR_VERSION = 1,
	MODEL_PRODUCER_NAME = 2,
	MODEL_PRODUCER_VERSION = 3,
	MODEL_GRAPH = 7,
	MODEL_OPSET_IMPORT = 8,
	MODEL_METADATA = 14,
	OPSET_VERSION = 2,
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2,
	GRAPH_NODE = 1,
	GRAPH_NAME = 2,
	GRAPH_INITIALIZER = 5,
	GRAPH_DOC = 10,
	GRAPH_INPUT = 11,
	GRAPH_OUTPUT = 12,
	NODE_INPUT = 1,
	NODE_OUTPUT = 2,
	NODE_NAME = 3,
	NODE_OP_TYPE = 4,
	NODE_ATTRIBUTE = 5,
	ATTRIBUTE_NAME = 1,
	ATTRIBUTE_FLOAT = 2,
	ATTRIBUTE_INT = 3,
	ATTRIBUTE_INTS = 8,
	ATTRIBUTE_TYPE = 20,
	TENSOR_DIMS = 1,
	TENSOR_DATA_TYPE = 2,
	TENSOR_NAME = 8,
	TENSOR_RAW_DATA = 9,
	VALUE_NAME = 1,
	VALUE_TYPE = 2,
	TYPE_TENSOR = 1,
	TENSOR_TYPE_ELEM = 1,
	TENSOR_TYPE_SHAPE = 2,
	SHAPE_DIM = 1,
	DIM_VALUE = 1,
	DIM_PARAM = 2,
};

/* Their values. */
enum { DATA_FLOAT = 1, TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };

/* Size of a value's name. Ours contain ':', which no layer's name has. */
#define VALUE_MAX (LAYER_NAME_MAX + 16)

struct writer {
	struct wire w;
	const struct net *net;
	const float *params, *states;
	const struct image_norm *norm;
};

/* --- nodes ---------------------------------------------------------------------- */

/* Begin a node; NULL ends its inputs. Attributes may follow until wire_end(). */
static size_t begin_node(struct writer *o, const char *type, const char *name, const char *output,
	const char *const *inputs)
{
	size_t mark = wire_begin(&o->w, GRAPH_NODE);

	for (; *inputs; inputs++)
		wire_text(&o->w, NODE_INPUT, *inputs);
	wire_text(&o->w, NODE_OUTPUT, output);
	wire_text(&o->w, NODE_NAME, name);
	wire_text(&o->w, NODE_OP_TYPE, type);
	return mark;
}

#define INPUTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void plain_node(struct writer *o, const char *type, const char *name, const char *output,
	const char *const *inputs)
{
	wire_end(&o->w, begin_node(o, type, name, output, inputs));
}

static void put_int(struct writer *o, const char *name, int v)
{
	size_t mark = wire_begin(&o->w, NODE_ATTRIBUTE);

	wire_text(&o->w, ATTRIBUTE_NAME, name);
	wire_number(&o->w, ATTRIBUTE_INT, v);
	wire_number(&o->w, ATTRIBUTE_TYPE, TYPE_INT);
	wire_end(&o->w, mark);
}

static void put_float(struct writer *o, const char *name, float v)
{
	size_t mark = wire_begin(&o->w, NODE_ATTRIBUTE);

	wire_text(&o->w, ATTRIBUTE_NAME, name);
	wire_float(&o->w, ATTRIBUTE_FLOAT, v);
	wire_number(&o->w, ATTRIBUTE_TYPE, TYPE_FLOAT);
	wire_end(&o->w, mark);
}

/* Add an attribute with the same number n times: for height and width, or both ends of each. */
static void put_ints(struct writer *o, const char *name, int v, int n)
{
	size_t mark = wire_begin(&o->w, NODE_ATTRIBUTE);

	wire_text(&o->w, ATTRIBUTE_NAME, name);
	for (int i = 0; i < n; i++)
		wire_number(&o->w, ATTRIBUTE_INTS, v);
	wire_number(&o->w, ATTRIBUTE_TYPE, TYPE_INTS);
	wire_end(&o->w, mark);
}

static void flatten(struct writer *o, const char *name, const char *output, const char *input)
{
	size_t mark = begin_node(o, "Flatten", name, output, INPUTS(input));

	put_int(o, "axis", 1);
	wire_end(&o->w, mark);
}

/* --- tensors and shapes ------------------------------------------------------------ */

static void put_tensor(
	struct writer *o, const char *name, const struct shape *shape, const float *data)
{
	size_t mark = wire_begin(&o->w, GRAPH_INITIALIZER), count = shape_count(shape);
	unsigned char *to;

	for (int i = 0; i < shape->rank; i++)
		wire_number(&o->w, TENSOR_DIMS, shape->dim[i]);
	wire_number(&o->w, TENSOR_DATA_TYPE, DATA_FLOAT);
	wire_text(&o->w, TENSOR_NAME, name);
	to = wire_bytes(&o->w, TENSOR_RAW_DATA, count * sizeof(float));
	for (size_t i = 0; to && i < count; i++) { /* little-endian on every machine */
		uint32_t bits;

		memcpy(&bits, &data[i], sizeof(bits));
		for (int k = 0; k < 4; k++)
			to[4 * i + (size_t)k] = (unsigned char)(bits >> 8 * k);
	}
	wire_end(&o->w, mark);
}

static void put_tensor_of(struct writer *o, const struct layer *l, const char *what,
	const struct shape *shape, const float *data)
{
	char name[VALUE_MAX];

	snprintf(name, sizeof(name), "%s.%s", l->name, what);
	put_tensor(o, name, shape, data);
}

static void put_params(struct writer *o, const struct layer *l)
{
	struct shape weights = layer_weight_shape(l), row = shape1(weights.dim[0]);
	const float *states = l->states ? o->states + l->state_at : NULL;

	put_tensor_of(o, l, "weight", &weights, o->params + l->weight_at);
	if (l->biases)
		put_tensor_of(o, l, "bias", &row, o->params + l->bias_at);
	if (l->states) {
		put_tensor_of(o, l, "running_mean", &row, states);
		put_tensor_of(o, l, "running_var", &row, states + row.dim[0]);
	}
}

static void put_dim(struct writer *o, int v)
{
	size_t mark = wire_begin(&o->w, SHAPE_DIM);

	if (v > 0)
		wire_number(&o->w, DIM_VALUE, v);
	else
		wire_text(&o->w, DIM_PARAM, "N");
	wire_end(&o->w, mark);
}

/* Add an input or output: N images of this shape. */
static void put_value(struct writer *o, int field, const char *name, const struct shape *shape)
{
	size_t value = wire_begin(&o->w, field), type, tensor, dims;

	wire_text(&o->w, VALUE_NAME, name);
	type = wire_begin(&o->w, VALUE_TYPE);
	tensor = wire_begin(&o->w, TYPE_TENSOR);
	wire_number(&o->w, TENSOR_TYPE_ELEM, DATA_FLOAT);
	dims = wire_begin(&o->w, TENSOR_TYPE_SHAPE);
	put_dim(o, 0);
	for (int i = 0; i < shape->rank; i++)
		put_dim(o, shape->dim[i]);
	wire_end(&o->w, dims);
	wire_end(&o->w, tensor);
	wire_end(&o->w, type);
	wire_end(&o->w, value);
}

/* --- layers ------------------------------------------------------------------------ */

/* Name the output of a layer; dropout's is that of the layer that it reads. */
static const char *value_of(const struct writer *o, int which, char text[VALUE_MAX])
{
	const struct layer *l = which < 0 ? NULL : &o->net->layers[which];

	while (l && l->kind == LAYER_DROPOUT)
		l = l->from < 0 ? NULL : &o->net->layers[l->from];
	if (l == &o->net->layers[o->net->n - 1])
		return "logits";
	if (!l)
		return "input:normalised";
	snprintf(text, VALUE_MAX, "%s:out", l->name);
	return text;
}

static void conv_node(struct writer *o, const struct layer *l, const char *x, const char *y)
{
	char weight[VALUE_MAX], bias[VALUE_MAX];
	size_t mark;

	snprintf(weight, sizeof(weight), "%s.weight", l->name);
	snprintf(bias, sizeof(bias), "%s.bias", l->name);
	mark = begin_node(o, "Conv", l->name, y, INPUTS(x, weight, l->biases ? bias : NULL));
	put_ints(o, "kernel_shape", l->size, 2);
	put_ints(o, "strides", l->stride, 2);
	put_ints(o, "pads", l->pad, 4);
	wire_end(&o->w, mark);
}

static void dense_node(struct writer *o, const struct layer *l, const char *x, const char *y)
{
	char weight[VALUE_MAX], bias[VALUE_MAX], row[VALUE_MAX];
	size_t mark;

	snprintf(weight, sizeof(weight), "%s.weight", l->name);
	snprintf(bias, sizeof(bias), "%s.bias", l->name);
	snprintf(row, sizeof(row), "%s:row", l->name);
	if (l->in.rank != 1)
		flatten(o, row, row, x);
	mark = begin_node(o, "Gemm", l->name, y,
		INPUTS(l->in.rank != 1 ? row : x, weight, l->biases ? bias : NULL));
	put_int(o, "transB", 1);
	wire_end(&o->w, mark);
}

static void pool_node(struct writer *o, const struct layer *l, const char *x, const char *y)
{
	const char *type = l->kind == LAYER_MAXPOOL ? "MaxPool" : "AveragePool";
	size_t mark = begin_node(o, type, l->name, y, INPUTS(x));

	put_ints(o, "kernel_shape", l->size, 2);
	put_ints(o, "strides", l->stride, 2);
	wire_end(&o->w, mark);
}

static void globalpool_node(struct writer *o, const struct layer *l, const char *x, const char *y)
{
	char pixel[VALUE_MAX];

	snprintf(pixel, sizeof(pixel), "%s:pixel", l->name);
	plain_node(o, "GlobalAveragePool", pixel, pixel, INPUTS(x));
	flatten(o, l->name, y, pixel);
}

static void batchnorm_node(struct writer *o, const struct layer *l, const char *x, const char *y)
{
	static const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
	char names[4][VALUE_MAX];
	size_t mark;

	for (int i = 0; i < 4; i++)
		snprintf(names[i], VALUE_MAX, "%s.%s", l->name, parts[i]);
	mark = begin_node(o, "BatchNormalization", l->name, y,
		INPUTS(x, names[0], names[1], names[2], names[3]));
	put_float(o, "epsilon", l->epsilon);
	wire_end(&o->w, mark);
}

static void put_layer(struct writer *o, size_t i)
{
	const struct layer *l = &o->net->layers[i];
	char from[VALUE_MAX], with[VALUE_MAX], out[VALUE_MAX];
	const char *x = value_of(o, l->from, from), *y = value_of(o, (int)i, out);

	switch (l->kind) {
	case LAYER_CONV:
		conv_node(o, l, x, y);
		break;
	case LAYER_RELU:
		plain_node(o, "Relu", l->name, y, INPUTS(x));
		break;
	case LAYER_MAXPOOL:
	case LAYER_AVGPOOL:
		pool_node(o, l, x, y);
		break;
	case LAYER_DENSE:
		dense_node(o, l, x, y);
		break;
	case LAYER_DROPOUT:
		break;
	case LAYER_GLOBALPOOL:
		globalpool_node(o, l, x, y);
		break;
	case LAYER_BATCHNORM:
		batchnorm_node(o, l, x, y);
		break;
	case LAYER_ADD:
		plain_node(o, "Add", l->name, y, INPUTS(x, value_of(o, l->with, with)));
		break;
	}
}

/* Add (pixel - mean) / scale for each channel. */
static void put_norm(struct writer *o)
{
	struct shape s = shape4(1, o->net->input.dim[0], 1, 1);

	put_tensor(o, "input:mean", &s, o->norm->mean);
	put_tensor(o, "input:scale", &s, o->norm->scale);
	plain_node(o, "Sub", "input:centre", "input:centred", INPUTS("input", "input:mean"));
	plain_node(o, "Div", "input:normalise", "input:normalised",
		INPUTS("input:centred", "input:scale"));
}

static void put_graph(struct writer *o)
{
	const struct net *net = o->net;
	struct shape classes = shape1(net->classes);
	size_t graph = wire_begin(&o->w, MODEL_GRAPH), mark;

	wire_text(&o->w, GRAPH_NAME, net->name);
	if (net->about[0])
		wire_text(&o->w, GRAPH_DOC, net->about);
	put_value(o, GRAPH_INPUT, "input", &net->input);
	put_value(o, GRAPH_OUTPUT, "logits", &classes);
	put_value(o, GRAPH_OUTPUT, "probabilities", &classes);
	put_norm(o);
	for (size_t i = 0; i < net->n; i++) {
		if (layer_has_params(&net->layers[i]))
			put_params(o, &net->layers[i]);
		put_layer(o, i);
	}
	mark = begin_node(o, "Softmax", "softmax:probabilities", "probabilities", INPUTS("logits"));
	put_int(o, "axis", 1);
	wire_end(&o->w, mark);
	wire_end(&o->w, graph);
}

static void put_classes(struct writer *o, char *const *classes)
{
	auto_free char *text = mlr_json_print(
		MLR_JSON_LIST(i, o->net->classes, mlr_json_text(classes[i])), JSON_COMPACT);
	size_t mark = wire_begin(&o->w, MODEL_METADATA);

	wire_text(&o->w, ENTRY_KEY, "classes");
	wire_text(&o->w, ENTRY_VALUE, text);
	wire_end(&o->w, mark);
}

int onnx_build(const struct net *net, const float *params, const float *states,
	const struct image_norm *norm, char *const *classes, char **ret, size_t *len,
	struct mlr_error *err)
{
	struct writer o = { { 0 }, net, params, states, norm };
	size_t mark;
	int large;

	wire_number(&o.w, MODEL_IR_VERSION, IR_VERSION);
	wire_text(&o.w, MODEL_PRODUCER_NAME, "mltrain");
	wire_text(&o.w, MODEL_PRODUCER_VERSION, PACKAGE_VERSION);
	put_graph(&o);
	mark = wire_begin(&o.w, MODEL_OPSET_IMPORT);
	wire_number(&o.w, OPSET_VERSION, OPSET);
	wire_end(&o.w, mark);
	if (classes)
		put_classes(&o, classes);
	if (!o.w.failed && o.w.len <= ONNX_FILE_MAX) {
		*len = o.w.len;
		*ret = o.w.data;
		return 0;
	}
	large = !o.w.failed;
	wire_done(&o.w);
	if (large)
		return mlr_fail(err, EFBIG,
			"network '%s' has %zu parameters; an ONNX file holds 2 GiB", net->name,
			net->params);
	return mlr_fail(
		err, ENOMEM, "not enough memory for a model of %zu parameters", net->params);
}
