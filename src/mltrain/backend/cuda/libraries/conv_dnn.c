#include "backend/cuda/libraries/conv_dnn.h"

#include "backend/cuda/device.h"
#include "backend/cuda/libraries/library.h"

#include <cudnn.h>
#include <stdbool.h>

static struct {
	__typeof__(cudnnCreate) *create;
	__typeof__(cudnnSetStream) *set_stream;
	__typeof__(cudnnGetErrorString) *error_string;
	__typeof__(cudnnGetLastErrorString) *last_error;
	__typeof__(cudnnBackendCreateDescriptor) *desc_create;
	__typeof__(cudnnBackendDestroyDescriptor) *desc_destroy;
	__typeof__(cudnnBackendFinalize) *finalize;
	__typeof__(cudnnBackendSetAttribute) *set;
	__typeof__(cudnnBackendGetAttribute) *get;
	__typeof__(cudnnBackendExecute) *execute;
} dnn;

static cudnnHandle_t handle;
static cudnnBackendDescriptor_t described; /* a device that is not here, instead of a handle's */

/* The graphs' names of their tensors. */
enum { UID_X = 'x', UID_W = 'w', UID_Y = 'y', UID_B = 'b', UID_SUM = 's', UID_BIASED = 't' };

#define DESCS_MAX   24 /* descriptors of one graph */
#define CONFIGS_MAX 16 /* engines asked for of a heuristic mode */

struct conv_dnn {
	struct conv_shape shape;
	cudnnBackendDescriptor_t desc[DESCS_MAX]; /* all that were made, in order */
	int descs;
	cudnnBackendDescriptor_t plan; /* one of them */
	int64_t workspace;
};

/* A refusal of cuDNN's is ENOTSUP: there may be other engines. */
static int check(cudnnStatus_t got, const char *call, int line, struct mlr_error *err)
{
	char why[256] = "";

	if (got == CUDNN_STATUS_SUCCESS)
		return 0;
	dnn.last_error(why, sizeof(why));
	return mlr_fail(err,
		got >= CUDNN_STATUS_NOT_SUPPORTED && got < CUDNN_STATUS_INTERNAL_ERROR ? ENOTSUP
										       : EIO,
		"%s: %s: %s (conv_dnn.c, line %d)", call, dnn.error_string(got), why, line);
}

#define DNN_TRY(call)                                             \
	do {                                                      \
		int tried_ = check((call), #call, __LINE__, err); \
		if (tried_ < 0)                                   \
			return tried_;                            \
	} while (0)

static int open_library(struct mlr_error *err)
{
	static const struct library_symbol symbols[] = {
		{ "cudnnCreate", &dnn.create },
		{ "cudnnSetStream", &dnn.set_stream },
		{ "cudnnGetErrorString", &dnn.error_string },
		{ "cudnnGetLastErrorString", &dnn.last_error },
		{ "cudnnBackendCreateDescriptor", &dnn.desc_create },
		{ "cudnnBackendDestroyDescriptor", &dnn.desc_destroy },
		{ "cudnnBackendFinalize", &dnn.finalize },
		{ "cudnnBackendSetAttribute", &dnn.set },
		{ "cudnnBackendGetAttribute", &dnn.get },
		{ "cudnnBackendExecute", &dnn.execute },
	};

	return library_open("libcudnn.so.9", symbols, ARRAY_LEN(symbols), err);
}

int conv_dnn_open(struct mlr_error *err)
{
	if (handle)
		return 0;
	TRY(open_library(err));
	DNN_TRY(dnn.create(&handle));
	return 0;
}

int conv_dnn_open_described(const char *json, struct mlr_error *err)
{
	TRY(open_library(err));
	DNN_TRY(dnn.desc_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &described));
	DNN_TRY(dnn.set(described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
		(int64_t)strlen(json), json));
	DNN_TRY(dnn.finalize(described));
	return 0;
}

void conv_dnn_free(struct conv_dnn **c)
{
	if (!*c)
		return;
	while ((*c)->descs > 0)
		dnn.desc_destroy((*c)->desc[--(*c)->descs]);
	free(*c);
	*c = NULL;
}

/* A new descriptor, which the convolution owns. */
static int make(struct conv_dnn *c, cudnnBackendDescriptorType_t type,
	cudnnBackendDescriptor_t *ret, struct mlr_error *err)
{
	if (c->descs == DESCS_MAX)
		return mlr_fail(err, ENOTSUP, "a graph of more than %d descriptors", DESCS_MAX);
	DNN_TRY(dnn.desc_create(type, ret));
	c->desc[c->descs++] = *ret;
	return 0;
}

static int set_int(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t n,
	const int64_t *v, struct mlr_error *err)
{
	DNN_TRY(dnn.set(d, name, CUDNN_TYPE_INT64, n, v));
	return 0;
}

static int set_desc(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
	cudnnBackendDescriptor_t v, struct mlr_error *err)
{
	DNN_TRY(dnn.set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v));
	return 0;
}

/* A tensor of dimensions [a][b][h][w] that lies as [a][h][w][b]: NHWC and KRSC alike. */
static int make_tensor(struct conv_dnn *c, int64_t uid, cudnnDataType_t type, int is_virtual, int a,
	int b, int h, int w, cudnnBackendDescriptor_t *ret, struct mlr_error *err)
{
	int64_t dim[4] = { a, b, h, w }, align = 16;
	int64_t stride[4] = { (int64_t)h * w * b, 1, (int64_t)w * b, b };
	bool yes = true;

	TRY(make(c, CUDNN_BACKEND_TENSOR_DESCRIPTOR, ret, err));
	DNN_TRY(dnn.set(*ret, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
	TRY(set_int(*ret, CUDNN_ATTR_TENSOR_DIMENSIONS, 4, dim, err));
	TRY(set_int(*ret, CUDNN_ATTR_TENSOR_STRIDES, 4, stride, err));
	TRY(set_int(*ret, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &uid, err));
	TRY(set_int(*ret, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align, err));
	if (is_virtual)
		DNN_TRY(dnn.set(*ret, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes));
	DNN_TRY(dnn.finalize(*ret));
	return 0;
}

static int make_convolution(
	struct conv_dnn *c, cudnnBackendDescriptor_t *ret, struct mlr_error *err)
{
	int64_t two = 2, one[2] = { 1, 1 }, pad[2] = { c->shape.pad, c->shape.pad };
	int64_t stride[2] = { c->shape.stride, c->shape.stride };
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

	TRY(make(c, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, ret, err));
	DNN_TRY(dnn.set(*ret, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
	DNN_TRY(dnn.set(
		*ret, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
	TRY(set_int(*ret, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &two, err));
	TRY(set_int(*ret, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, one, err));
	TRY(set_int(*ret, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, stride, err));
	TRY(set_int(*ret, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, pad, err));
	TRY(set_int(*ret, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, pad, err));
	DNN_TRY(dnn.finalize(*ret));
	return 0;
}

/* The names of one direction's attributes, in the order operation, descriptor, x, w, y, alpha,
 * beta. */
static const struct direction {
	cudnnBackendDescriptorType_t type;
	cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
} directions[] = {
	[CONV_FORWARD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
	[CONV_DATA] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
	[CONV_WEIGHTS] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

static int make_operation(struct conv_dnn *c, cudnnBackendDescriptor_t x,
	cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t *ret,
	struct mlr_error *err)
{
	const struct direction *d = &directions[c->shape.what];
	cudnnBackendDescriptor_t conv;
	float one = 1, zero = 0;

	TRY(make_convolution(c, &conv, err));
	TRY(make(c, d->type, ret, err));
	TRY(set_desc(*ret, d->conv, conv, err));
	TRY(set_desc(*ret, d->x, x, err));
	TRY(set_desc(*ret, d->w, w, err));
	TRY(set_desc(*ret, d->y, y, err));
	DNN_TRY(dnn.set(*ret, d->alpha, CUDNN_TYPE_FLOAT, 1, &one));
	DNN_TRY(dnn.set(*ret, d->beta, CUDNN_TYPE_FLOAT, 1, &zero));
	DNN_TRY(dnn.finalize(*ret));
	return 0;
}

/* to = mode(from), or mode(from, with) where there is one. */
static int make_pointwise(struct conv_dnn *c, cudnnPointwiseMode_t mode,
	cudnnBackendDescriptor_t from, cudnnBackendDescriptor_t with, cudnnBackendDescriptor_t to,
	cudnnBackendDescriptor_t *ret, struct mlr_error *err)
{
	cudnnBackendDescriptor_t pw;
	cudnnDataType_t type = CUDNN_DATA_FLOAT;

	TRY(make(c, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &pw, err));
	DNN_TRY(dnn.set(pw, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
	DNN_TRY(dnn.set(pw, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
	DNN_TRY(dnn.finalize(pw));
	TRY(make(c, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, ret, err));
	TRY(set_desc(*ret, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pw, err));
	TRY(set_desc(*ret, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from, err));
	if (with)
		TRY(set_desc(*ret, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, with, err));
	TRY(set_desc(*ret, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to, err));
	DNN_TRY(dnn.finalize(*ret));
	return 0;
}

/* The operations of the shape into ops[3]. Returns how many. */
static int make_operations(
	struct conv_dnn *c, cudnnBackendDescriptor_t ops[3], struct mlr_error *err)
{
	const struct conv_shape *s = &c->shape;
	cudnnDataType_t type = s->dtype == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
	cudnnBackendDescriptor_t x, w, y, b, from, to;
	int fused = s->bias + s->relu, n = 0;

	TRY(make_tensor(c, UID_X, type, 0, s->n, s->c, s->h, s->w, &x, err));
	TRY(make_tensor(c, UID_W, type, 0, s->k, s->c, s->r, s->r, &w, err));
	TRY(make_tensor(c, fused ? UID_SUM : UID_Y, fused ? CUDNN_DATA_FLOAT : type, fused > 0,
		s->n, s->k, s->p, s->q, &y, err));
	TRY(make_operation(c, x, w, y, &ops[n++], err));
	from = y;
	if (s->bias) {
		TRY(make_tensor(c, UID_B, type, 0, 1, s->k, 1, 1, &b, err));
		TRY(make_tensor(c, s->relu ? UID_BIASED : UID_Y, s->relu ? CUDNN_DATA_FLOAT : type,
			s->relu, s->n, s->k, s->p, s->q, &to, err));
		TRY(make_pointwise(c, CUDNN_POINTWISE_ADD, from, b, to, &ops[n++], err));
		from = to;
	}
	if (s->relu) {
		TRY(make_tensor(c, UID_Y, type, 0, s->n, s->k, s->p, s->q, &to, err));
		TRY(make_pointwise(c, CUDNN_POINTWISE_RELU_FWD, from, NULL, to, &ops[n++], err));
	}
	return n;
}

/* Is an engine made by a compiler when it is asked for? That takes seconds of a start. */
static int is_compiled_late(cudnnBackendDescriptor_t engine)
{
	cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
	int64_t n = 0;

	if (dnn.get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
		    CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, notes) != CUDNN_STATUS_SUCCESS)
		return 1;
	for (int64_t i = 0; i < n && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
		if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
			return 1;
	return 0;
}

/* May an engine be used? f32 is not to be rounded to fewer bits on the way. */
static int engine_serves(const struct conv_shape *s, cudnnBackendDescriptor_t config)
{
	cudnnBackendDescriptor_t engine = NULL;
	cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	int64_t n = 0;
	int serves = 1;

	if (dnn.desc_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS)
		return 0;
	if (dnn.get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
		    &engine) != CUDNN_STATUS_SUCCESS ||
		dnn.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
			CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes) != CUDNN_STATUS_SUCCESS ||
		is_compiled_late(engine))
		n = serves = 0;
	for (int64_t i = 0; i < n && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
		if (s->deterministic && notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
			serves = 0;
		if (s->dtype == DTYPE_F32 &&
			(notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
				notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
			serves = 0;
		if (notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
			serves = 0;
	}
	dnn.desc_destroy(engine);
	return serves;
}

/* Name the handle to a plan. cuDNN 9 calls that deprecated and takes it from the graph; versions
 * that do not refuse plans without. */
static int set_plan_handle(cudnnBackendDescriptor_t plan)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	const cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

	return !handle ||
		dnn.set(plan, name, CUDNN_TYPE_HANDLE, 1, &handle) == CUDNN_STATUS_SUCCESS;
}

/* Name the device to a plan, where it is described. */
static int set_plan_device(cudnnBackendDescriptor_t plan)
{
	return !described ||
		dnn.set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
			1, &described) == CUDNN_STATUS_SUCCESS;
}

/* Make the plan of an engine's configuration. Returns 0 when it is one that serves. */
static int try_config(struct conv_dnn *c, cudnnBackendDescriptor_t config, int64_t limit)
{
	cudnnBackendDescriptor_t plan = NULL;
	int64_t workspace = 0, n = 0;

	if (!engine_serves(&c->shape, config) ||
		dnn.desc_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
			CUDNN_STATUS_SUCCESS)
		return -ENOTSUP;
	if (set_plan_handle(plan) && set_plan_device(plan) &&
		dnn.set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
			CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) == CUDNN_STATUS_SUCCESS &&
		dnn.finalize(plan) == CUDNN_STATUS_SUCCESS &&
		dnn.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
			&workspace) == CUDNN_STATUS_SUCCESS &&
		workspace <= limit) {
		c->plan = plan;
		c->workspace = workspace;
		return 0;
	}
	dnn.desc_destroy(plan);
	return -ENOTSUP;
}

/* Take the first that serves of the engines that one heuristic names. */
static int try_mode(struct conv_dnn *c, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
	int64_t limit, struct mlr_error *err)
{
	cudnnBackendDescriptor_t heuristic, configs[CONFIGS_MAX] = { NULL };
	int64_t n = 0, made = 0;
	int r = -ENOTSUP;

	TRY(make(c, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic, err));
	TRY(set_desc(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, err));
	DNN_TRY(dnn.set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
	if (described)
		TRY(set_desc(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, described, err));
	DNN_TRY(dnn.finalize(heuristic));
	for (; made < CONFIGS_MAX; made++)
		if (dnn.desc_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made]) !=
			CUDNN_STATUS_SUCCESS)
			break;
	if (dnn.get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made,
		    &n, configs) != CUDNN_STATUS_SUCCESS)
		n = 0;
	for (int64_t i = 0; i < n && i < made && r < 0; i++)
		r = try_config(c, configs[i], limit);
	for (int64_t i = 0; i < made; i++)
		dnn.desc_destroy(configs[i]);
	return r;
}

static int choose(
	struct conv_dnn *c, cudnnBackendDescriptor_t graph, size_t workspace, struct mlr_error *err)
{
	static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
		CUDNN_HEUR_MODE_FALLBACK };
	struct mlr_error why = MLR_ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if (try_mode(c, graph, modes[i], (int64_t)workspace, &why) == 0) {
			c->desc[c->descs++] = c->plan;
			return 0;
		}
	return mlr_fail(err, ENOTSUP, "no engine of cuDNN's for %dx%dx%dx%d by %d of %dx%d%s%s",
		c->shape.n, c->shape.h, c->shape.w, c->shape.c, c->shape.k, c->shape.r, c->shape.r,
		why.code ? ": " : "", why.text);
}

int conv_dnn_new(const struct conv_shape *shape, size_t workspace, struct conv_dnn **ret,
	struct mlr_error *err)
{
	auto_call(conv_dnn_free) struct conv_dnn *c = xcalloc(1, sizeof(*c));
	cudnnBackendDescriptor_t ops[3], graph;
	int n;

	c->shape = *shape;
	n = make_operations(c, ops, err);
	if (n < 0)
		return n;
	TRY(make(c, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph, err));
	DNN_TRY(dnn.set(
		graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops));
	if (handle)
		DNN_TRY(dnn.set(
			graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
	DNN_TRY(dnn.finalize(graph));
	TRY(choose(c, graph, workspace, err));
	*ret = take_ptr(&c);
	return 0;
}

/* Bind the arrays and execute; the pack is destroyed by the caller. */
static int execute(struct conv_dnn *c, cudnnBackendDescriptor_t pack, void *const at[4],
	void *workspace, struct mlr_error *err)
{
	const int64_t uid[4] = { UID_X, UID_W, UID_Y, UID_B };
	int64_t n = c->shape.bias ? 4 : 3;

	DNN_TRY(dnn.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uid));
	DNN_TRY(dnn.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at));
	DNN_TRY(dnn.set(
		pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
	DNN_TRY(dnn.finalize(pack));
	DNN_TRY(dnn.execute(handle, c->plan, pack));
	return 0;
}

int conv_dnn_run(struct conv_dnn *c, void *x, void *w, void *b, void *y, void *workspace,
	cudaStream_t stream, struct mlr_error *err)
{
	void *const at[4] = { x, w, y, b };
	cudnnBackendDescriptor_t pack = NULL;
	int r;

	DNN_TRY(dnn.set_stream(handle, stream));
	DNN_TRY(dnn.desc_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
	r = execute(c, pack, at, workspace, err);
	dnn.desc_destroy(pack);
	return r;
}
