/* The GPU's kernels as C++ for the CPU. */
#include "backend/cuda/kernels/elements.cu"
#include "backend/cuda/kernels/loss.cu"
#include "backend/cuda/kernels/norm.cu"
#include "backend/cuda/kernels/pool.cu"
#include "backend/cuda/kernels/update.cu"
