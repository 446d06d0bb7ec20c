/*
 * How a convolution or a dense layer is computed: by a kernel of our own, by cuDNN, by cuBLASLt.
 * One place decides (product_choose()), and what a library refuses our kernels do.
 */
#pragma once

#include "backend/cuda/node.h"

#include <cuda_runtime_api.h>

enum product_what { PRODUCT_FORWARD, PRODUCT_DATA, PRODUCT_WEIGHTS };
#define PRODUCTS        3
#define WORKSPACE_MAX   ((size_t)64 << 20) /* bytes that a library may use */
#define PRODUCT_KEY_MAX 128

/* The key of a measurement: "forward bf16 n64 14x14x32 k64 r5 s1 p2 relu pool". */
void product_key(const struct node *node, enum dtype dtype, enum product_what what,
	char key[PRODUCT_KEY_MAX]);

struct conv_dnn;
struct gemm_lt;

/* All NULL: our kernels. */
struct product {
	struct conv_dnn *dnn[PRODUCTS];
	struct gemm_lt *lt[PRODUCTS];
};

/* Limits on what the libraries may use. */
struct product_limits {
	enum dtype dtype;
	int trains, deterministic;
	size_t workspace;
};

/*
 * Decide for one node, as told by $MLTRAIN_CUDA_PRODUCTS ("own", "library"), else by the table that
 * measurements have filled (choice.h), else by sizes. A library that is not there or refuses a
 * shape is told at debug level.
 *
 * Returns NULL, or the name of a library that was wanted but is not there.
 */
const char *product_choose(const struct node *node, const struct product_limits *limits,
	int is_float, struct product *ret);
/*
 * Prepare a library for one of a node's products, in ret.
 *
 *   which   0; or the which-th engine of CHOICE_ENGINES that can do it, for a search
 *
 * Returns 0, -ENOTSUP and kin when none can: ret is as it was.
 */
int product_prepare(const struct node *node, const struct product_limits *limits,
	enum product_what what, int is_float, int which, struct product *ret,
	struct mlr_error *err);

/* A library failed when it ran: from now on our kernels compute the product. The first such
 * failure of a process is told as a warning, others at debug level. */
void product_give_up(const struct node *node, enum product_what what, const struct mlr_error *why,
	struct product *p);
void product_done(struct product *p);

static inline int product_is_own(const struct product *p, enum product_what what)
{
	return !p->dnn[what] && !p->lt[what];
}

/* --- tune.c: measures which is faster, only on request: $MLTRAIN_TUNE, which --tune sets --- */

int tune_is_asked(void);

/*
 * Measure every convolution and dense layer of a network that libraries could compute, with as many
 * of their engines as CHOICE_ENGINES, and save the choices. An engine that fails loses. Returns 0,
 * or -ENOMEM, -EIO when the device itself fails.
 */
int tune_nodes(const struct nodes *nodes, const struct product_limits *limits, cudaStream_t stream,
	struct mlr_error *err);
