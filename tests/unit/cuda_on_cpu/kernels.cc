/* The GPU's kernels as C++ for the CPU. */
#include "trainer/backend/cuda/conv.cu"
#include "trainer/backend/cuda/conv_few.cu"
#include "trainer/backend/cuda/conv_near.cu"
#include "trainer/backend/cuda/elements.cu"
#include "trainer/backend/cuda/loss.cu"
#include "trainer/backend/cuda/norm.cu"
#include "trainer/backend/cuda/pool.cu"
#include "trainer/backend/cuda/sgd.cu"
