/* Which kernels may begin before the one before them ends (behind_previous(), device.cuh). */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"

static int overlap;

void kernel_overlap(int on)
{
	overlap = on;
}

/*
 * Only a kernel that is captured behind one other, which is the graph's next node alone: what waits
 * for several, or for a copy, waits for their ends.
 */
bool launch_overlaps(cudaStream_t stream)
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
		type == cudaGraphNodeTypeKernel;
}
