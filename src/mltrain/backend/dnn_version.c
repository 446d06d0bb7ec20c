#include "backend/dnn.h"

#if DNNL_VERSION_MAJOR < 2 || DNNL_VERSION_MAJOR > 3
#error "mltrain knows oneDNN 2.x and 3.x; ./configure --with-onednn=no builds without it"
#endif

/* --- descriptions ------------------------------------------------------------------ */

static dnn_md copy(dnn_md md)
{
#if DNNL_VERSION_MAJOR == 2
	dnnl_memory_desc_t *ret = xmalloc(sizeof(*ret));

	*ret = *md;
	return ret;
#else
	dnnl_memory_desc_t ret;

	if (dnnl_memory_desc_clone(&ret, md) != dnnl_success)
		abort();
	return ret;
#endif
}

/* A network has few formats, so each is kept once, for ever, and copies of struct dnn_format need
 * no owner. */
struct dnn_format dnn_version_keep(dnn_md md)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct dnn_format *kept;
	static size_t n;
	struct dnn_format ret = { NULL };

	if (!md)
		return ret;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n && !ret.md; i++)
		if (dnnl_memory_desc_equal(kept[i].md, md))
			ret = kept[i];
	if (!ret.md) {
		kept = xgrow(kept, n, sizeof(*kept));
		ret.md = kept[n++].md = copy(md);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

#if DNNL_VERSION_MAJOR == 2

struct dnn_format dnn_version_format(
	int rank, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md;
	dnnl_dims_t d = { 0 };

	memcpy(d, dims, (size_t)rank * sizeof(*d));
	memset(&md, 0, sizeof(md));
	if (dnnl_memory_desc_init_by_tag(&md, rank, d, type, tag) != dnnl_success)
		abort();
	return dnn_version_keep(&md);
}

int dnn_version_rank(const struct dnn_format *f)
{
	return f->md ? f->md->ndims : 0;
}

const dnnl_dim_t *dnn_version_dims(const struct dnn_format *f)
{
	return f->md->dims;
}

dnnl_data_type_t dnn_version_type(const struct dnn_format *f)
{
	return f->md->data_type;
}

struct dnn_format dnn_version_retype(struct dnn_format f, dnnl_data_type_t type)
{
	dnnl_memory_desc_t md = *f.md;

	md.data_type = type;
	return dnn_version_keep(&md);
}

#else

static dnnl_memory_desc_t by_tag(
	int rank, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md = NULL;
	dnnl_dims_t d = { 0 };

	memcpy(d, dims, (size_t)rank * sizeof(*d));
	return dnnl_memory_desc_create_with_tag(&md, rank, d, type, tag) == dnnl_success ? md
											 : NULL;
}

struct dnn_format dnn_version_format(
	int rank, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md = by_tag(rank, dims, type, tag);
	struct dnn_format ret = dnn_version_keep(md);

	if (!md)
		abort();
	dnnl_memory_desc_destroy(md);
	return ret;
}

int dnn_version_rank(const struct dnn_format *f)
{
	int rank = 0;

	dnnl_memory_desc_query(f->md, dnnl_query_ndims_s32, &rank);
	return rank;
}

const dnnl_dim_t *dnn_version_dims(const struct dnn_format *f)
{
	const dnnl_dims_t *dims = NULL;

	dnnl_memory_desc_query(f->md, dnnl_query_dims, &dims);
	return *dims;
}

dnnl_data_type_t dnn_version_type(const struct dnn_format *f)
{
	dnnl_data_type_t type = dnnl_data_type_undef;

	dnnl_memory_desc_query(f->md, dnnl_query_data_type, &type);
	return type;
}

/* oneDNN 3 cannot change a description, so find the tag that makes it. A layout without one, which
 * only a reorder makes, becomes row-major: another reorder then converts it. */
struct dnn_format dnn_version_retype(struct dnn_format f, dnnl_data_type_t type)
{
	static const dnnl_format_tag_t plain[] = { dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd };
	const dnnl_dim_t *dims = dnn_version_dims(&f);
	dnnl_data_type_t is = dnn_version_type(&f);
	int rank = dnn_version_rank(&f), tag = dnnl_format_tag_any;

	for (; is != type && tag < dnnl_format_tag_last; tag++) {
		dnnl_memory_desc_t md = by_tag(rank, dims, is, (dnnl_format_tag_t)tag);
		int found = md && dnnl_memory_desc_equal(md, f.md);

		dnnl_memory_desc_destroy(md);
		if (found)
			return dnn_version_format(rank, dims, type, (dnnl_format_tag_t)tag);
	}
	return is == type ? f : dnn_version_format(rank, dims, type, plain[rank - 1]);
}

#endif

/* --- operations -------------------------------------------------------------------- */

dnnl_status_t dnn_version_append_relu(dnnl_post_ops_t post)
{
#if DNNL_VERSION_MAJOR == 2
	return dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_relu, 0, 0);
#else
	return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_relu, 0, 0);
#endif
}

static int is_avoided(const struct dnn_wish *w, const struct dnn_op *op)
{
	return w->avoid && strncmp(dnn_op_name(op), w->avoid, strlen(w->avoid)) == 0;
}

static dnnl_prop_kind_t kind_of(const struct dnn_layer *l)
{
	return l->predicts ? dnnl_forward_inference : dnnl_forward_training;
}

#if DNNL_VERSION_MAJOR == 2

/* oneDNN's own description of an operation. */
union wish {
	dnnl_convolution_desc_t conv;
	dnnl_inner_product_desc_t dense;
	dnnl_matmul_desc_t product;
};

static dnnl_status_t write_conv(
	const struct dnn_layer *l, enum dnn_direction direction, dnnl_convolution_desc_t *ret)
{
	dnnl_dims_t stride = { l->stride, l->stride }, pad = { l->pad, l->pad };

	if (direction == DNN_FORWARD)
		return dnnl_convolution_forward_desc_init(ret, kind_of(l), dnnl_convolution_direct,
			l->src.md, l->weights.md, l->bias.md, l->dst.md, stride, pad, pad);
	if (direction == DNN_TO_DATA)
		return dnnl_convolution_backward_data_desc_init(ret, dnnl_convolution_direct,
			l->src.md, l->weights.md, l->dst.md, stride, pad, pad);
	return dnnl_convolution_backward_weights_desc_init(ret, dnnl_convolution_direct, l->src.md,
		l->weights.md, l->bias.md, l->dst.md, stride, pad, pad);
}

static dnnl_status_t write_dense(
	const struct dnn_layer *l, enum dnn_direction direction, dnnl_inner_product_desc_t *ret)
{
	if (direction == DNN_FORWARD)
		return dnnl_inner_product_forward_desc_init(
			ret, kind_of(l), l->src.md, l->weights.md, l->bias.md, l->dst.md);
	if (direction == DNN_TO_DATA)
		return dnnl_inner_product_backward_data_desc_init(
			ret, l->src.md, l->weights.md, l->dst.md);
	return dnnl_inner_product_backward_weights_desc_init(
		ret, l->src.md, l->weights.md, l->bias.md, l->dst.md);
}

static void iterator_cleanup(dnnl_primitive_desc_iterator_t *i)
{
	if (*i)
		dnnl_primitive_desc_iterator_destroy(*i);
}

dnnl_status_t dnn_version_describe(
	struct dnn *d, const struct dnn_wish *w, dnnl_primitive_attr_t attr, struct dnn_op *op)
{
	auto_call(iterator_cleanup) dnnl_primitive_desc_iterator_t i = NULL;
	const struct dnn_layer *l = w->layer;
	union wish wish;
	dnnl_status_t s = w->direction == DNN_PRODUCT
		? dnnl_matmul_desc_init(&wish.product, l->src.md, l->weights.md, NULL, l->dst.md)
		: l->is_conv ? write_conv(l, w->direction, &wish.conv)
			     : write_dense(l, w->direction, &wish.dense);

	if (s == dnnl_success)
		s = dnnl_primitive_desc_iterator_create(
			&i, &wish, attr, d->engine, w->forward ? w->forward->desc : NULL);
	while (s == dnnl_success) {
		op->desc = dnnl_primitive_desc_iterator_fetch(i);
		if (!op->desc)
			return dnnl_out_of_memory;
		if (!is_avoided(w, op))
			return dnnl_success;
		dnnl_primitive_desc_destroy(op->desc);
		op->desc = NULL;
		s = dnnl_primitive_desc_iterator_next(i);
	}
	return s == dnnl_iterator_ends ? dnnl_unimplemented : s;
}

#else

static dnnl_status_t describe_conv(struct dnn *d, const struct dnn_wish *w,
	dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
	const struct dnn_layer *l = w->layer;
	dnnl_dims_t stride = { l->stride, l->stride }, pad = { l->pad, l->pad }, dilation = { 0 };

	if (w->direction == DNN_FORWARD)
		return dnnl_convolution_forward_primitive_desc_create(ret, d->engine, kind_of(l),
			dnnl_convolution_direct, l->src.md, l->weights.md, l->bias.md, l->dst.md,
			stride, dilation, pad, pad, attr);
	if (w->direction == DNN_TO_DATA)
		return dnnl_convolution_backward_data_primitive_desc_create(ret, d->engine,
			dnnl_convolution_direct, l->src.md, l->weights.md, l->dst.md, stride,
			dilation, pad, pad, w->forward->desc, attr);
	return dnnl_convolution_backward_weights_primitive_desc_create(ret, d->engine,
		dnnl_convolution_direct, l->src.md, l->weights.md, l->bias.md, l->dst.md, stride,
		dilation, pad, pad, w->forward->desc, attr);
}

static dnnl_status_t describe_dense(struct dnn *d, const struct dnn_wish *w,
	dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
	const struct dnn_layer *l = w->layer;

	if (w->direction == DNN_FORWARD)
		return dnnl_inner_product_forward_primitive_desc_create(ret, d->engine, kind_of(l),
			l->src.md, l->weights.md, l->bias.md, l->dst.md, attr);
	if (w->direction == DNN_TO_DATA)
		return dnnl_inner_product_backward_data_primitive_desc_create(ret, d->engine,
			l->src.md, l->weights.md, l->dst.md, w->forward->desc, attr);
	return dnnl_inner_product_backward_weights_primitive_desc_create(ret, d->engine, l->src.md,
		l->weights.md, l->bias.md, l->dst.md, w->forward->desc, attr);
}

dnnl_status_t dnn_version_describe(
	struct dnn *d, const struct dnn_wish *w, dnnl_primitive_attr_t attr, struct dnn_op *op)
{
	const struct dnn_layer *l = w->layer;
	dnnl_status_t s = w->direction == DNN_PRODUCT
		? dnnl_matmul_primitive_desc_create(
			  &op->desc, d->engine, l->src.md, l->weights.md, NULL, l->dst.md, attr)
		: l->is_conv ? describe_conv(d, w, attr, &op->desc)
			     : describe_dense(d, w, attr, &op->desc);

	while (s == dnnl_success && is_avoided(w, op))
		s = dnnl_primitive_desc_next_impl(op->desc);
	return s == dnnl_last_impl_reached ? dnnl_unimplemented : s;
}

#endif
