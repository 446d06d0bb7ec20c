/* The little of CUDA's runtime that launchers of kernels speak, for machines without CUDA. */
#ifndef CUDA_ON_CPU_RUNTIME_API_H
#define CUDA_ON_CPU_RUNTIME_API_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;

#ifdef __cplusplus
}
#endif

#endif
