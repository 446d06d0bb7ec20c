/* Hides the differences between oneDNN 2.x and 3.x. For dnn.c. */
#ifndef MLT_BACKEND_DNN_VERSION_H
#define MLT_BACKEND_DNN_VERSION_H

#include "backend/dnn.h"

enum dnn_direction { DNN_FORWARD, DNN_TO_DATA, DNN_TO_WEIGHTS, DNN_PRODUCT };

/* An operation to make. */
struct dnn_wish {
	enum dnn_direction direction;
	const struct dnn_layer *layer; /* of DNN_PRODUCT only the formats count */
	const struct dnn_op *forward;  /* of the ways back */
	const char *avoid; /* begins the names of implementations that are passed over; or NULL */
};

/* A format by oneDNN's tag. Cannot fail: net_new() checked the sizes. */
struct dnn_format dnn_version_format(
	int rank, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag);

/* The same layout with elements of another type. */
struct dnn_format dnn_version_retype(struct dnn_format f, dnnl_data_type_t type);

/* A copy of a description that oneDNN lends. NULL: none. */
struct dnn_format dnn_version_keep(dnn_md md);

int dnn_version_rank(const struct dnn_format *f);
const dnnl_dim_t *dnn_version_dims(const struct dnn_format *f);
dnnl_data_type_t dnn_version_type(const struct dnn_format *f);

/* Have an operation write max(y, 0). */
dnnl_status_t dnn_version_append_relu(dnnl_post_ops_t post);

/* Find an implementation; op->desc gets its description. */
dnnl_status_t dnn_version_describe(
	struct dnn *d, const struct dnn_wish *w, dnnl_primitive_attr_t attr, struct dnn_op *op);

#endif
