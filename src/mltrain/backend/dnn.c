#include "backend/dnn.h"

#include "backend/parallel.h"

static int failed(dnnl_status_t status, const char *what, struct mlr_error *err)
{
	if (status == dnnl_out_of_memory)
		return mlr_fail(err, ENOMEM, "oneDNN: %s: no memory", what);
	if (status == dnnl_unimplemented)
		return mlr_fail(err, ENOTSUP,
			"oneDNN: %s: not implemented for these sizes on this CPU", what);
	return mlr_fail(err, EINVAL, "oneDNN: %s: wrong arguments", what);
}

int dnn_init(struct dnn *d, int threads, struct mlr_error *err)
{
	dnnl_status_t s;

	*d = (struct dnn){ NULL, NULL };
	parallel_init(threads);
	s = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
	if (s != dnnl_success)
		return failed(s, "make a CPU engine", err);
	s = dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags);
	return s == dnnl_success ? 0 : failed(s, "make a stream", err);
}

void dnn_done(struct dnn *d)
{
	if (d->stream)
		dnnl_stream_destroy(d->stream);
	if (d->engine)
		dnnl_engine_destroy(d->engine);
	*d = (struct dnn){ NULL, NULL };
}

#if defined(__x86_64__)
#define BASE  "sse4"
#define NAMES "sse4, avx2, avx512, avx512-bf16, amx"
#else
#if defined(__aarch64__)
#define BASE "neon"
#else
#define BASE "generic"
#endif
#define NAMES BASE
#endif

static const struct {
	const char *name;
	dnnl_cpu_isa_t isa;
} isas[] = {
	[DNN_BASE] = { BASE, dnnl_cpu_isa_sse41 },
	[DNN_AVX2] = { "avx2", dnnl_cpu_isa_avx2 },
	[DNN_AVX512] = { "avx512", dnnl_cpu_isa_avx512_core },
	[DNN_AVX512_BF16] = { "avx512-bf16", dnnl_cpu_isa_avx512_core_bf16 },
	[DNN_AMX] = { "amx", dnnl_cpu_isa_avx512_core_amx },
};

/* The value of an instruction set has the bits of those that it includes. Only x86 has several. */
static int has(enum dnn_isa isa)
{
#if defined(__x86_64__)
	return (dnnl_get_effective_cpu_isa() & isas[isa].isa) == isas[isa].isa;
#else
	return isa == DNN_BASE;
#endif
}

enum dnn_isa dnn_isa(void)
{
	enum dnn_isa isa = DNN_ISAS - 1;

	while (isa > DNN_BASE && !has(isa))
		isa--;
	return isa;
}

const char *dnn_isa_name(enum dnn_isa isa)
{
	return isas[isa].name;
}

int dnn_isa_limit(const char *name, struct mlr_error *err)
{
	enum dnn_isa isa = DNN_BASE;

	while (isa < DNN_ISAS && strcmp(isas[isa].name, name) != 0)
		isa++;
	if (isa == DNN_ISAS)
		return mlr_fail(err, EINVAL, "'%s' is not one of: " NAMES, name);
#if defined(__x86_64__)
	/* Asked for what is in effect, oneDNN settles it. */
	if (dnnl_set_max_cpu_isa(isas[isa].isa) != dnnl_success)
		return mlr_fail(err, EBUSY, "oneDNN has settled the instruction set already");
#endif
	return has(isa) ? 0
			: mlr_fail(err, ENOTSUP, "'%s' is wider than this machine's %s", name,
				  isas[dnn_isa()].name);
}

int dnn_has_bf16(void)
{
	return has(DNN_AVX512_BF16);
}

struct dnn_format dnn_format_by(int rank, const int *dims, dnnl_format_tag_t tag)
{
	dnnl_dims_t d = { 0 };

	for (int i = 0; i < rank; i++)
		d[i] = dims[i];
	return dnn_version_format(rank, d, dnnl_f32, tag);
}

struct dnn_format dnn_format_plain(int rank, const int *dims)
{
	static const dnnl_format_tag_t tags[] = { dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd };

	return dnn_format_by(rank, dims, tags[rank - 1]);
}

struct dnn_format dnn_format_any(int rank, const int *dims)
{
	return dnn_format_by(rank, dims, dnnl_format_tag_any);
}

struct dnn_format dnn_format_typed(struct dnn_format f, int bf16)
{
	return dnn_version_retype(f, bf16 ? dnnl_bf16 : dnnl_f32);
}

size_t dnn_format_size(const struct dnn_format *f)
{
	return f->md ? dnnl_memory_desc_get_size(f->md) : 0;
}

int dnn_format_same(const struct dnn_format *a, const struct dnn_format *b)
{
	return dnnl_memory_desc_equal(a->md, b->md);
}

/* The formats of activations that our own loops support, and their blocks; 0: all channels. */
static const struct {
	dnnl_format_tag_t tag;
	int block;
} known_formats[] = { { dnnl_nChw16c, 16 }, { dnnl_nChw8c, 8 }, { dnnl_nhwc, 0 },
	{ dnnl_nchw, 1 } };

/* Return the index of an activation's format among those, or -1. */
static int known_format(const struct dnn_format *f)
{
	const dnnl_dim_t *dims = dnn_version_dims(f);

	for (int i = 0; dnn_version_rank(f) == 4 && i < (int)ARRAY_LEN(known_formats); i++) {
		struct dnn_format g =
			dnn_version_format(4, dims, dnn_version_type(f), known_formats[i].tag);

		if (dnn_format_same(f, &g))
			return i;
	}
	return -1;
}

int dnn_format_block(const struct dnn_format *f)
{
	int i = known_format(f);

	if (i < 0)
		return 0;
	return known_formats[i].block ? known_formats[i].block : (int)dnn_version_dims(f)[1];
}

struct dnn_format dnn_format_like(const struct dnn_format *f, const int *dims)
{
	struct dnn_format g = dnn_format_by(4, dims, known_formats[known_format(f)].tag);

	return dnn_version_retype(g, dnn_version_type(f));
}

void dnn_op_done(struct dnn_op *op)
{
	for (int i = 0; i < op->n; i++)
		dnnl_memory_destroy(op->args[i].memory);
	if (op->prim)
		dnnl_primitive_destroy(op->prim);
	if (op->desc)
		dnnl_primitive_desc_destroy(op->desc);
	memset(op, 0, sizeof(*op));
}

static void attr_cleanup(dnnl_primitive_attr_t *a)
{
	if (*a)
		dnnl_primitive_attr_destroy(*a);
}

static void post_ops_cleanup(dnnl_post_ops_t *p)
{
	if (*p)
		dnnl_post_ops_destroy(*p);
}

const char *dnn_op_name(const struct dnn_op *op)
{
	const char *name = "-";

	if (op->desc)
		dnnl_primitive_desc_query(op->desc, dnnl_query_impl_info_str, 0, &name);
	return name;
}

/* Attributes of an operation. We provide scratch memory, so that it is part of the engine's plan.
 */
static dnnl_status_t make_attributes(int relu, dnnl_primitive_attr_t *ret)
{
	auto_call(post_ops_cleanup) dnnl_post_ops_t post = NULL;
	dnnl_status_t s = dnnl_primitive_attr_create(ret);

	if (s == dnnl_success)
		s = dnnl_primitive_attr_set_scratchpad_mode(*ret, dnnl_scratchpad_mode_user);
	if (s == dnnl_success && relu)
		s = dnnl_post_ops_create(&post);
	if (s == dnnl_success && relu)
		s = dnn_version_append_relu(post);
	if (s == dnnl_success && relu)
		s = dnnl_primitive_attr_set_post_ops(*ret, post);
	return s;
}

static int make(struct dnn *d, const struct dnn_wish *w, const char *what, struct dnn_op *op,
	struct mlr_error *err)
{
	auto_call(attr_cleanup) dnnl_primitive_attr_t attr = NULL;
	int relu = w->direction == DNN_FORWARD && w->layer->relu;
	dnnl_status_t s = make_attributes(relu, &attr);

	if (s == dnnl_success)
		s = dnn_version_describe(d, w, attr, op);
	if (s == dnnl_success)
		s = dnnl_primitive_create(&op->prim, op->desc);
	if (s == dnnl_success)
		return 0;
	dnn_op_done(op);
	return failed(s, what, err);
}

int dnn_forward(struct dnn *d, const struct dnn_layer *l, struct dnn_op *op, struct mlr_error *err)
{
	return make(d, &(struct dnn_wish){ DNN_FORWARD, l, NULL, NULL }, "forward pass", op, err);
}

int dnn_backward_data(struct dnn *d, const struct dnn_layer *l, const struct dnn_op *forward,
	struct dnn_op *op, struct mlr_error *err)
{
	return make(d, &(struct dnn_wish){ DNN_TO_DATA, l, forward, NULL }, "backward pass to data",
		op, err);
}

/* Use the general code for these few pixels: oneDNN 2.6's code for bf16 reads beyond its arrays if
 * a strided, padded kernel has only one output, which makes wrong gradients. */
static int goes_astray(const struct dnn_layer *l)
{
	const dnnl_dim_t *dst = dnn_version_dims(&l->dst);

	return l->is_conv && dnn_version_type(&l->src) == dnnl_bf16 && l->stride > 1 &&
		l->pad > 0 && (dst[2] == 1 || dst[3] == 1);
}

int dnn_backward_weights(struct dnn *d, const struct dnn_layer *l, const struct dnn_op *forward,
	struct dnn_op *op, struct mlr_error *err)
{
	const char *avoid = goes_astray(l) ? "jit_bf16" : NULL;

	return make(d, &(struct dnn_wish){ DNN_TO_WEIGHTS, l, forward, avoid },
		"backward pass to weights", op, err);
}

int dnn_square(struct dnn *d, int n, int bf16, struct dnn_op *op, struct mlr_error *err)
{
	int dims[] = { n, n };
	struct dnn_layer l = { .src = dnn_format_typed(dnn_format_plain(2, dims), bf16),
		.weights = dnn_format_typed(dnn_format_any(2, dims), bf16),
		.dst = dnn_format_plain(2, dims) };

	return make(d, &(struct dnn_wish){ DNN_PRODUCT, &l, NULL, NULL }, "square matrix product",
		op, err);
}

int dnn_reorder(struct dnn *d, const struct dnn_format *from, const struct dnn_format *to,
	struct dnn_op *op, struct mlr_error *err)
{
	auto_call(attr_cleanup) dnnl_primitive_attr_t attr = NULL;
	dnnl_status_t s;

	if ((s = make_attributes(0, &attr)) != dnnl_success ||
		(s = dnnl_reorder_primitive_desc_create(&op->desc, from->md, d->engine, to->md,
			 d->engine, attr)) != dnnl_success ||
		(s = dnnl_primitive_create(&op->prim, op->desc)) != dnnl_success) {
		dnn_op_done(op);
		return failed(s, "reorder", err);
	}
	TRY(dnn_op_bind(d, op, DNNL_ARG_FROM, NULL, err));
	return dnn_op_bind(d, op, DNNL_ARG_TO, NULL, err);
}

struct dnn_format dnn_op_format(const struct dnn_op *op, int arg)
{
	return dnn_version_keep(
		dnnl_primitive_desc_query_md(op->desc, dnnl_query_exec_arg_md, arg));
}

size_t dnn_op_scratch(const struct dnn_op *op)
{
	struct dnn_format f;

	if (!op->desc)
		return 0;
	f = dnn_op_format(op, DNNL_ARG_SCRATCHPAD);
	return dnn_format_size(&f);
}

int dnn_op_bind(struct dnn *d, struct dnn_op *op, int arg, void *data, struct mlr_error *err)
{
	struct dnn_format f = dnn_op_format(op, arg);
	dnnl_memory_t m;
	dnnl_status_t s;

	if (op->n == DNN_ARGS_MAX)
		abort();
	s = dnnl_memory_create(&m, f.md, d->engine, data);
	if (s != dnnl_success)
		return failed(s, "bind memory", err);
	op->args[op->n++] = (dnnl_exec_arg_t){ arg, m };
	return 0;
}

void dnn_op_point(struct dnn_op *op, int arg, const void *data)
{
	for (int i = 0; i < op->n; i++)
		if (op->args[i].arg == arg)
			dnnl_memory_set_data_handle(op->args[i].memory, (void *)data);
}

void dnn_op_run(struct dnn *d, struct dnn_op *op)
{
	dnnl_status_t s;

	if (!op->prim)
		return;
	s = dnnl_primitive_execute(op->prim, d->stream, op->n, op->args);
	if (s == dnnl_success)
		s = dnnl_stream_wait(d->stream);
	if (s == dnnl_success)
		return;
	mlr_log(MLR_ERROR, "oneDNN: %s failed with status %d", dnn_op_name(op), (int)s);
	abort();
}
