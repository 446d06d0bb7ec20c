/*
 * As much of CUDA's runtime as the backend cuda calls, for machines without CUDA: memory is the
 * CPU's, streams run at once, captures are recorded with what each operation waits for.
 *
 * What a program gets wrong shows: a graph is replayed in an order drawn from all that its edges
 * allow, so that a missing event changes results; what may not be called while a stream is captured
 * fails as on a device; a side stream that is not joined fails the capture; device memory begins as
 * 0xff.
 */
#ifndef CUDA_FAKE_RUNTIME_API_H
#define CUDA_FAKE_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorNotReady = 600,
	cudaErrorLaunchFailure = 719,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureUnjoined = 904,
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraph_st *cudaGraphExec_t;

typedef struct {
	char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp {
	char name[256];
	cudaUUID_t uuid;
	int major, minor;
	size_t totalGlobalMem;
};

enum cudaMemcpyKind {
	cudaMemcpyHostToHost,
	cudaMemcpyHostToDevice,
	cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice
};
enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal,
	cudaStreamCaptureModeThreadLocal,
	cudaStreamCaptureModeRelaxed
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

cudaError_t cudaMalloc(void **p, size_t size);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t size);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemsetAsync(void *p, int value, size_t size, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaGraphInstantiate(
	cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* --- for tests --- */

/* How many GPUs there are (1 at the start), and how much memory each has left (no limit). */
void cuda_fake_devices(int count);
/* The driver's version (13000 at the start); 0: there is none. */
void cuda_fake_driver(int version);
/* Their compute capability (90 at the start). */
void cuda_fake_sm(int sm);
/* Another first one of them for this thread, as if $CUDA_VISIBLE_DEVICES began with it. */
void cuda_fake_first_device(int number);
void cuda_fake_memory(size_t bytes);

/* Let the call after n others fail with cudaErrorLaunchFailure, and every one after it. n < 0:
 * none. */
void cuda_fake_fail_after(int n);

/* Bytes of device and pinned memory, streams, events and graphs that were taken and not given
 * back. */
size_t cuda_fake_left(void);

/* For how many questions streams are still busy; below 0: until this is called again, and who waits
 * for one by cudaStreamSynchronize() would wait for ever, which aborts. */
void cuda_fake_busy(int questions);

/* Does device memory that was taken hold these bytes? */
int cuda_fake_is_device(const void *p, size_t bytes);

/* The device of this thread, as its UUID has it. */
int cuda_fake_device(void);

/* Let a library not be there, by its name as in "libcudnn.so.9"; NULL: all are. */
void cuda_fake_without(const char *soname);

/* Graphs that were launched, so far. */
int cuda_fake_graph_launches(void);

#ifdef __cplusplus
}
#endif

#endif
