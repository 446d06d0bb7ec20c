/*
 * cuDNN's graphs, computed by plain loops. Tensors lie as their strides say, so a wrong layout
 * shows. As cuDNN 9.19 does, it has ready-made engines only for graphs whose arrays are all of one
 * type, and none for ReLU without a bias (test_trainer_dnn.c asks the real one). Its heuristics
 * name engines that must not be taken before those that may.
 */
#include "stand_in.h"

#include <cudnn.h>
#include <map>
#include <memory>
#include <vector>

struct cudnnContext {
	cudaStream_t stream;
};

/* What speaks against an engine. */
enum flaw { FLAW_NOT, FLAW_COMPILED, FLAW_LARGE, FLAW_ROUNDS, FLAW_CHANCE };

struct descriptor;
typedef std::shared_ptr<descriptor> shared;

struct value {
	cudnnBackendAttributeType_t type;
	std::vector<unsigned char> bytes;
	std::vector<shared> descriptors;
};

struct descriptor {
	cudnnBackendDescriptorType_t type;
	bool final;
	std::map<int, value> values;
	flaw engine;
	shared graph; /* an engine's */
};

static cudnnContext only;

static shared &of(cudnnBackendDescriptor_t d)
{
	return *(shared *)d;
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
	switch (type) {
	case CUDNN_TYPE_CHAR:
	case CUDNN_TYPE_BOOLEAN:
		return 1;
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
		return 8;
	default:
		return 4;
	}
}

/* All values of an attribute, which must be there. */
template <class T> static std::vector<T> all(const shared &d, cudnnBackendAttributeName_t name)
{
	const value &v = d->values[name];
	std::vector<T> ret(v.bytes.size() / sizeof(T));

	demand(!v.bytes.empty() && size_of(v.type) == sizeof(T), "an attribute is missing");
	memcpy(ret.data(), v.bytes.data(), v.bytes.size());
	return ret;
}

template <class T> static T one(const shared &d, cudnnBackendAttributeName_t name)
{
	return all<T>(d, name)[0];
}

static shared child(const shared &d, cudnnBackendAttributeName_t name)
{
	demand(d->values[name].descriptors.size() == 1, "a descriptor is missing");
	return d->values[name].descriptors[0];
}

/* --- tensors --- */

struct tensor {
	std::vector<int64_t> dim, stride;
	bool is_virtual;
	array at;

	size_t index(int64_t a, int64_t b, int64_t h, int64_t w) const
	{
		return (size_t)(a * stride[0] + b * stride[1] + h * stride[2] + w * stride[3]);
	}
	size_t count() const
	{
		return (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
	}
};

/* Where a graph's tensors lie while it is computed, by their names. */
struct places {
	std::map<int64_t, void *> given;
	std::map<int64_t, std::vector<float>> virtuals;
};

static bool is_virtual(const shared &d)
{
	return d->values.count(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
		one<char>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

static tensor tensor_of(const shared &d, places &p)
{
	int64_t uid = one<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID);
	tensor t = { all<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
		all<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES), is_virtual(d), {} };

	demand(t.dim.size() == 4 && t.stride.size() == 4, "a tensor has not four dimensions");
	t.at.half = one<int>(d, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16;
	if (t.is_virtual) {
		demand(!t.at.half && !p.given.count(uid), "a virtual tensor is given");
		p.virtuals[uid].resize(t.count());
		t.at.at = p.virtuals[uid].data();
	} else {
		demand(p.given.count(uid), "a tensor is not given");
		t.at.at = p.given[uid];
		demand_aligned(t.at.at, (size_t)one<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
			"a tensor is not aligned");
	}
	return t;
}

/* --- operations --- */

/* A direction's names, and which of x, w and y it writes. */
struct direction {
	cudnnBackendDescriptorType_t type;
	cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
	int written;
};

static const direction directions[] = {
	{ CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 2 },
	{ CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0 },
	{ CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 1 },
};

/* Call visit(x's, w's, y's index) for every product of the convolution. */
template <class V>
static void for_products(
	const tensor &x, const tensor &w, const tensor &y, int64_t stride, int64_t pad, V visit)
{
	for (int64_t n = 0; n < x.dim[0]; n++)
		for (int64_t m = 0; m < y.dim[2] * y.dim[3] * w.dim[2] * w.dim[3]; m++) {
			int64_t t = m % (w.dim[2] * w.dim[3]), r = t / w.dim[3], s = t % w.dim[3];
			int64_t pixel = m / (w.dim[2] * w.dim[3]), p = pixel / y.dim[3],
				q = pixel % y.dim[3];
			int64_t i = p * stride - pad + r, j = q * stride - pad + s;

			if (i < 0 || j < 0 || i >= x.dim[2] || j >= x.dim[3])
				continue;
			for (int64_t k = 0; k < w.dim[0]; k++)
				for (int64_t c = 0; c < w.dim[1]; c++)
					visit(x.index(n, c, i, j), w.index(k, c, r, s),
						y.index(n, k, p, q));
		}
}

static void convolve(const shared &op, const direction &d, places &at)
{
	shared conv = child(op, d.conv);
	tensor x = tensor_of(child(op, d.x), at), w = tensor_of(child(op, d.w), at),
	       y = tensor_of(child(op, d.y), at);
	const tensor &to = d.written == 0 ? x : d.written == 1 ? w : y;
	int64_t stride = all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[1];
	int64_t pad = all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[1];
	std::vector<double> sum(to.count());

	demand(one<float>(op, d.alpha) == 1 && one<float>(op, d.beta) == 0, "a product is scaled");
	demand(one<int>(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
			one<int>(conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
			one<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
			all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS)[1] == 1 &&
			all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[1] == pad,
		"a convolution of another kind");
	demand(x.dim[0] == y.dim[0] && x.dim[1] == w.dim[1] && y.dim[1] == w.dim[0] &&
			y.dim[2] == (x.dim[2] + 2 * pad - w.dim[2]) / stride + 1 &&
			y.dim[3] == (x.dim[3] + 2 * pad - w.dim[3]) / stride + 1,
		"tensors that do not fit");
	for_products(x, w, y, stride, pad, [&](size_t xi, size_t wi, size_t yi) {
		if (d.written == 0)
			sum[xi] += (double)y.at[yi] * w.at[wi];
		else if (d.written == 1)
			sum[wi] += (double)x.at[xi] * y.at[yi];
		else
			sum[yi] += (double)x.at[xi] * w.at[wi];
	});
	for (size_t i = 0; i < sum.size(); i++)
		to.at.set(i, (float)sum[i]);
}

static int mode_of(const shared &pointwise)
{
	return one<int>(child(pointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
		CUDNN_ATTR_POINTWISE_MODE);
}

/* Sums with a bias, or ReLU. */
static void map(const shared &op, places &at)
{
	tensor x = tensor_of(child(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC), at);
	tensor y = tensor_of(child(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC), at);
	bool adds = mode_of(op) == CUDNN_POINTWISE_ADD;
	tensor b = adds ? tensor_of(child(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC), at) : x;

	demand(x.dim == y.dim && x.stride == y.stride, "operands that do not fit");
	demand(!adds || (b.count() == (size_t)b.dim[1] && b.dim[1] == x.dim[1]), "no bias");
	for (size_t i = 0; i < x.count(); i++) {
		int64_t channel = (int64_t)i / x.stride[1] % x.dim[1];
		float v = x.at[i] + (adds ? b.at[b.index(0, channel, 0, 0)] : 0);

		y.at.set(i, !adds && v < 0 ? 0 : v);
	}
}

static void compute(const shared &graph, places at)
{
	for (const shared &op : graph->values[CUDNN_ATTR_OPERATIONGRAPH_OPS].descriptors) {
		if (op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
			map(op, at);
		for (const direction &d : directions)
			if (op->type == d.type)
				convolve(op, d, at);
	}
}

/* --- engines --- */

/* Is the graph one of those with ready-made engines? */
static bool is_served(const shared &graph)
{
	const std::vector<shared> &ops = graph->values[CUDNN_ATTR_OPERATIONGRAPH_OPS].descriptors;
	std::map<int, int> types;

	for (const shared &op : ops)
		for (const auto &v : op->values)
			for (const shared &d : v.second.descriptors)
				if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && !is_virtual(d))
					types[one<int>(d, CUDNN_ATTR_TENSOR_DATA_TYPE)]++;
	return types.size() == 1 && (ops.size() == 1 || mode_of(ops[1]) == CUDNN_POINTWISE_ADD);
}

static std::vector<flaw> engines_of(const shared &heuristic)
{
	if (one<int>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A ||
		!is_served(child(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)))
		return { FLAW_COMPILED, FLAW_LARGE };
	return { FLAW_ROUNDS, FLAW_CHANCE, FLAW_NOT };
}

static int64_t workspace_of(const shared &plan)
{
	return child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine == FLAW_LARGE
		? (int64_t)1 << 40
		: STAND_IN_WORKSPACE;
}

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
	*handle = &only;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t)
{
	return "CUDNN_STATUS_NOT_SUPPORTED";
}

void cudnnGetLastErrorString(char *message, size_t)
{
	message[0] = '\0';
}

cudnnStatus_t cudnnBackendCreateDescriptor(
	cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *ret)
{
	*ret = new shared(new descriptor{ type, false, {}, FLAW_NOT, {} });
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t desc)
{
	delete (shared *)desc;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t desc)
{
	demand(!of(desc)->final, "a descriptor is finished twice");
	of(desc)->final = true;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t desc,
	cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
	const void *values)
{
	const unsigned char *bytes = (const unsigned char *)values;
	value v = { type, { bytes, bytes + (size_t)n * size_of(type) }, {} };

	demand(!of(desc)->final, "a descriptor is changed when it is finished");
	for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++) {
		v.descriptors.push_back(of(((const cudnnBackendDescriptor_t *)values)[i]));
		demand(v.descriptors.back()->final, "a descriptor is not finished");
	}
	of(desc)->values[name] = v;
	return CUDNN_STATUS_SUCCESS;
}

/* Say what an engine notes. */
static int64_t notes_of(const shared &engine, cudnnBackendAttributeName_t name, int *note)
{
	if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
		*note = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
		return engine->engine == FLAW_COMPILED;
	}
	*note = engine->engine == FLAW_CHANCE ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
					      : CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
	return engine->engine == FLAW_CHANCE || engine->engine == FLAW_ROUNDS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t desc,
	cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t, int64_t most, int64_t *n,
	void *values)
{
	std::vector<flaw> engines;

	switch (name) {
	case CUDNN_ATTR_ENGINEHEUR_RESULTS:
		engines = engines_of(of(desc));
		for (*n = 0; *n < most && *n < (int64_t)engines.size(); ++*n) {
			shared &config = of(((cudnnBackendDescriptor_t *)values)[*n]);

			config->engine = engines[(size_t)*n];
			config->graph = child(of(desc), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
			config->final = true;
		}
		return CUDNN_STATUS_SUCCESS;
	case CUDNN_ATTR_ENGINECFG_ENGINE:
		of(*(cudnnBackendDescriptor_t *)values)->engine = of(desc)->engine;
		*n = 1;
		return CUDNN_STATUS_SUCCESS;
	case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
	case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
		*n = notes_of(of(desc), name, (int *)values);
		return CUDNN_STATUS_SUCCESS;
	case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
		*(int64_t *)values = workspace_of(of(desc));
		*n = 1;
		return CUDNN_STATUS_SUCCESS;
	default:
		return CUDNN_STATUS_BAD_PARAM;
	}
}

cudnnStatus_t cudnnBackendExecute(
	cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
	shared config = child(of(plan), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
	shared graph = config->graph;
	std::vector<int64_t> uids = all<int64_t>(of(pack), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
	std::vector<void *> at = all<void *>(of(pack), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
	places p;

	demand(one<void *>(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) == handle, "no handle");
	demand(of(plan)->final && of(pack)->final && uids.size() == at.size(), "not finished");
	demand(config->engine == FLAW_NOT || config->engine == FLAW_CHANCE,
		"an engine that was not to be taken");
	for (size_t i = 0; i < uids.size(); i++)
		p.given[uids[i]] = at[i];
	submit_product(handle->stream, one<void *>(of(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
		[=]() { compute(graph, p); });
	return CUDNN_STATUS_SUCCESS;
}
}
