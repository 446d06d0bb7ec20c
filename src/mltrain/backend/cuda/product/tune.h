/*
 * Measuring which is faster for each product, a kernel of our own or a library, on request alone:
 * $MLTRAIN_TUNE, which --tune sets. What is found is kept (choice.h).
 */
#ifndef MLT_BACKEND_CUDA_PRODUCT_TUNE_H
#define MLT_BACKEND_CUDA_PRODUCT_TUNE_H

#include "backend/cuda/node.h"
#include "backend/cuda/product/product.h"

#include <cuda_runtime_api.h>

int tune_is_asked(void);

/*
 * Measure every convolution and dense layer of a network that libraries could compute, with as many
 * of their engines as CHOICE_ENGINES, and save the choices. An engine that fails loses. Returns 0,
 * or -ENOMEM, -EIO when the device itself fails.
 */
int tune_nodes(const struct nodes *nodes, const struct product_limits *limits, cudaStream_t stream,
	struct mlr_error *err);

#endif
