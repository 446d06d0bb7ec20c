/*
 * Wraps the parts of oneDNN that the backend `onednn` needs: formats, operations, reorders. Only
 * dnn_version.c depends on oneDNN's version, 2.x or 3.x (developer guide at
 * oneapi-src.github.io/oneDNN).
 */
#pragma once

#include "base/base.h"

#include <dnnl.h>

#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *dnn_md;
#else
typedef const_dnnl_memory_desc_t dnn_md;
#endif

struct dnn {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
};

/*
 * Instruction sets, the narrowest first: the base ("sse4" on x86-64, "neon" on aarch64, else
 * "generic"), and on x86-64 "avx2", "avx512", "avx512-bf16", "amx". Each has those before it. One
 * can be forced for tests by dnn_isa_limit(), before anything else is called, or by the variable
 * ONEDNN_MAX_CPU_ISA, which oneDNN reads.
 */
enum dnn_isa { DNN_BASE, DNN_AVX2, DNN_AVX512, DNN_AVX512_BF16, DNN_AMX, DNN_ISAS };

/* The widest that may be used here. */
enum dnn_isa dnn_isa(void);
const char *dnn_isa_name(enum dnn_isa isa);

/* Use none wider than the one of this name. Returns 0; -EINVAL for an unknown name; -ENOTSUP if
 * this machine, or oneDNN, does not have it. */
int dnn_isa_limit(const char *name, struct mlr_error *err);

/* Start the CPU engine with this number of threads, which holds for the whole process, oneDNN and
 * parallel.h. */
int dnn_init(struct dnn *d, int threads, struct mlr_error *err);
void dnn_done(struct dnn *d);

/* Does oneDNN compute with bf16 on this CPU faster than with floats? */
int dnn_has_bf16(void);

/* The layout of a tensor in memory. Elements are floats unless dnn_format_typed() changes that. */
struct dnn_format {
	dnn_md md; /* lives as long as the process; NULL: none */
};

/* Make the same layout with other elements. */
struct dnn_format dnn_format_typed(struct dnn_format f, int bf16);

/* Row-major; or chosen by oneDNN when an operation is made. */
struct dnn_format dnn_format_plain(int rank, const int *dims);
struct dnn_format dnn_format_any(int rank, const int *dims);

/* As a tag of oneDNN's says. */
struct dnn_format dnn_format_by(int rank, const int *dims, dnnl_format_tag_t tag);

/* The format of an activation [n][c][h][w] for other dimensions; its block must be known
 * (below). */
struct dnn_format dnn_format_like(const struct dnn_format *f, const int *dims);

/* Count the bytes, including padding. */
size_t dnn_format_size(const struct dnn_format *f);
int dnn_format_same(const struct dnn_format *a, const struct dnn_format *b);

/*
 * An activation [n][c][h][w] seen as [n * c / block][h][w][block]: 1 for row-major, c for
 * channels-last, 8 or 16 for oneDNN's blocked formats (whose c is rounded up). 0 for what is none
 * of these.
 */
int dnn_format_block(const struct dnn_format *f);

#define DNN_ARGS_MAX 5

/* A primitive with its arguments. All zero: empty. */
struct dnn_op {
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t prim;
	dnnl_exec_arg_t args[DNN_ARGS_MAX];
	int n;
};

void dnn_op_done(struct dnn_op *op);

/* A convolution or dense layer. Formats may be "any". */
struct dnn_layer {
	int is_conv;
	int stride, pad;
	int relu;     /* forward: write y = max(y, 0) */
	int predicts; /* there is no backward pass */
	struct dnn_format src, weights, dst;
	struct dnn_format bias; /* NULL: none */
};

/*
 * Make the operation of one direction. forward is the layer's forward operation; backward
 * directions take their formats from l, where dst is that of the gradient of the output. Returns 0,
 * -ENOTSUP if oneDNN has no implementation, -ENOMEM.
 */
int dnn_forward(struct dnn *d, const struct dnn_layer *l, struct dnn_op *op, struct mlr_error *err);
int dnn_backward_data(struct dnn *d, const struct dnn_layer *l, const struct dnn_op *forward,
	struct dnn_op *op, struct mlr_error *err);
int dnn_backward_weights(struct dnn *d, const struct dnn_layer *l, const struct dnn_op *forward,
	struct dnn_op *op, struct mlr_error *err);

/* C = A B of n x n matrices, C of floats, in the formats that oneDNN prefers. Arguments are the
 * same. */
int dnn_square(struct dnn *d, int n, int bf16, struct dnn_op *op, struct mlr_error *err);

/* Copy from one format to another: the bound arguments DNNL_ARG_FROM and DNNL_ARG_TO. */
int dnn_reorder(struct dnn *d, const struct dnn_format *from, const struct dnn_format *to,
	struct dnn_op *op, struct mlr_error *err);

/* The format that an operation chose for an argument: DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, … */
struct dnn_format dnn_op_format(const struct dnn_op *op, int arg);

/* Return the bytes of scratch memory that it needs (bound as DNNL_ARG_SCRATCHPAD). */
size_t dnn_op_scratch(const struct dnn_op *op);

/* Name its implementation: "jit:avx512_core". */
const char *dnn_op_name(const struct dnn_op *op);

/* Bind an argument to its memory, in the format of dnn_op_format(). */
int dnn_op_bind(struct dnn *d, struct dnn_op *op, int arg, void *data, struct mlr_error *err);

/* Change the memory of a bound argument. */
void dnn_op_point(struct dnn_op *op, int arg, const void *data);

/* Run it and wait. A failure is a bug and aborts. An empty op does nothing. */
void dnn_op_run(struct dnn *d, struct dnn_op *op);

/* --- dnn_version.c hides the differences between oneDNN 2.x and 3.x, for dnn.c --- */

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
