/* Which kernels may begin before the one before them ends (behind_previous(), device.cuh). */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"

static int overlap;

void kernel_overlap(int on)
{
	overlap = on;
}

/* Was the kernel compiled with behind_previous()'s instructions? Code for an older architecture,
 * which the driver translates for this GPU, goes without them. */
static bool waits_itself(const void *kernel)
{
	cudaFuncAttributes about;

	return cudaFuncGetAttributes(&about, kernel) == cudaSuccess && about.ptxVersion >= 90;
}

/*
 * Only a kernel that is captured behind one other, the only one that it waits for: behind several,
 * or behind a copy, it begins when they have ended.
 */
bool launch_overlaps(const void *kernel, cudaStream_t stream)
{
	cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	const cudaGraphNode_t *before = NULL;
	const cudaGraphEdgeData *edges = NULL;
	cudaGraphNodeType type;
	size_t n = 0;

	return overlap &&
		cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &before, &edges, &n) ==
		cudaSuccess &&
		status == cudaStreamCaptureStatusActive && n == 1 &&
		(!edges || edges[0].type == cudaGraphDependencyTypeDefault) &&
		cudaGraphNodeGetType(before[0], &type) == cudaSuccess &&
		type == cudaGraphNodeTypeKernel && waits_itself(kernel);
}
