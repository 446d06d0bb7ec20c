/*
 * Convolutions of stride 1 in bf16 whose part of the image stays in shared memory.
 */
#pragma once

#include "backend/cuda/kernels/conv_operands.cuh"

/* Rows of a tile for this product (FORWARD or BACKWARD_DATA, aligned, bf16); 0: it does not fit. */
int conv_near_rows(const struct product *p, enum mode mode);

/* Start it with tiles of so many rows. */
cudaError_t conv_near(const struct product *p, enum mode mode, int rows, cudaStream_t stream);
