#include "cuda_on_cpu.h"

#include <cuda_runtime_api.h>
#include <map>
#include <set>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

struct node {
	std::function<void()> run;
	std::vector<size_t> after; /* nodes that it waits for */
};

struct CUgraph_st {
	std::vector<node> nodes;
};

struct CUstream_st {
	bool captured;
	std::vector<size_t> last; /* what the next operation of a captured stream waits for */
};

struct CUevent_st {
	bool captured;
	std::vector<size_t> last;
};

static struct {
	int devices = 1, driver = 13000, sm = 90, fails_after = -1, launches;
	size_t memory = (size_t)-1;
	bool failed, invalid;
	cudaStream_t origin; /* of the capture that goes on */
	CUgraph_st *graph;
	std::set<cudaStream_t> streams;
	std::map<void *, size_t> taken;
	std::set<void *> pinned;
	size_t events, graphs, used;
	uint64_t random = 1;
} fake;

static thread_local int device_of_thread, first_device;
static thread_local int busy; /* each thread has streams of its own */

/* Every call counts, and may be the one that is to fail. */
static cudaError_t call(void)
{
	if (fake.fails_after > 0)
		fake.fails_after--;
	else if (fake.fails_after == 0)
		return cudaErrorLaunchFailure;
	return cudaSuccess;
}

#define CALL()                         \
	do {                           \
		if (call())            \
			return call(); \
	} while (0)

/* What may not be done while this thread captures. */
static cudaError_t unsafe(void)
{
	if (!fake.origin)
		return call();
	fake.invalid = true;
	return cudaErrorStreamCaptureUnsupported;
}

static void submit(cudaStream_t stream, std::function<void()> run)
{
	if (!stream || !stream->captured) {
		run();
		return;
	}
	fake.graph->nodes.push_back({ run, stream->last });
	stream->last = { fake.graph->nodes.size() - 1 };
}

static int starts = (cuda_on_cpu_submit = submit, 0);

void cuda_fake_devices(int count)
{
	fake.devices = count;
}

void cuda_fake_driver(int version)
{
	fake.driver = version;
}

void cuda_fake_sm(int sm)
{
	fake.sm = sm;
}

void cuda_fake_first_device(int number)
{
	first_device = number;
}

int cuda_fake_device(void)
{
	return first_device + device_of_thread;
}

void cuda_fake_busy(int questions)
{
	busy = questions;
}

int cuda_fake_is_device(const void *p, size_t bytes)
{
	for (const auto &t : fake.taken)
		if (p >= t.first && (const char *)p + bytes <= (const char *)t.first + t.second)
			return !fake.pinned.count(t.first);
	return 0;
}

void cuda_fake_memory(size_t bytes)
{
	fake.memory = bytes;
}

void cuda_fake_fail_after(int n)
{
	fake.fails_after = n;
}

size_t cuda_fake_left(void)
{
	return fake.used + fake.streams.size() + fake.events + fake.graphs;
}

int cuda_fake_graph_launches(void)
{
	return fake.launches;
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorInvalidValue:
		return "invalid argument";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorLaunchFailure:
		return "unspecified launch failure";
	default:
		return "operation not permitted when stream is capturing";
	}
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = fake.devices;
	if (fake.driver < 13000)
		return cudaErrorInsufficientDriver;
	return fake.devices ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
	if (device >= fake.devices)
		return cudaErrorInvalidValue;
	device_of_thread = device;
	return call();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	memset(prop, 0, sizeof(*prop));
	prop->uuid.bytes[15] = (char)(first_device + device);
	strcpy(prop->name, "a GPU made up");
	prop->major = fake.sm / 10;
	prop->minor = fake.sm % 10;
	prop->totalGlobalMem = (size_t)1 << 30;
	return call();
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = fake.driver;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

static cudaError_t take(void **p, size_t size)
{
	*p = aligned_alloc(256, (size + 255) / 256 * 256);
	memset(*p, 0xff, size);
	fake.taken[*p] = size;
	fake.used += size;
	return cudaSuccess;
}

static cudaError_t give(void *p)
{
	if (!p)
		return cudaSuccess;
	if (!fake.taken.count(p))
		abort();
	fake.used -= fake.taken[p];
	fake.taken.erase(p);
	fake.pinned.erase(p);
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
	cudaError_t got = unsafe();

	if (got)
		return got;
	return size > fake.memory ? cudaErrorMemoryAllocation : take(p, size);
}

cudaError_t cudaFree(void *p)
{
	return give(p);
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
	cudaError_t got = unsafe();

	if (!got) {
		take(p, size);
		fake.pinned.insert(*p);
	}
	return got;
}

cudaError_t cudaFreeHost(void *p)
{
	return give(p);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t size, cudaStream_t stream)
{
	CALL();
	submit(stream, [=] { memset(p, value, size); });
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t size, enum cudaMemcpyKind, cudaStream_t stream)
{
	CALL();
	submit(stream, [=] { memcpy(to, from, size); });
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	CALL();
	*stream = new CUstream_st();
	fake.streams.insert(*stream);
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	fake.streams.erase(stream);
	delete stream;
	return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	if (stream->captured) {
		fake.invalid = true;
		return cudaErrorStreamCaptureUnsupported;
	}
	CALL();
	if (!busy)
		return cudaSuccess;
	busy -= busy > 0;
	return cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	if (stream->captured) {
		fake.invalid = true;
		return cudaErrorStreamCaptureUnsupported;
	}
	if (busy < 0) {
		fprintf(stderr, "fake CUDA: a stream that is never done is waited for\n");
		abort();
	}
	return call();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	CALL();
	if (!event->captured)
		return cudaSuccess;
	stream->captured = true;
	stream->last.insert(stream->last.end(), event->last.begin(), event->last.end());
	return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
	CALL();
	if (fake.origin)
		return cudaErrorInvalidValue;
	fake.origin = stream;
	fake.invalid = false;
	fake.graph = new CUgraph_st();
	fake.graphs++;
	stream->captured = true;
	stream->last.clear();
	return cudaSuccess;
}

/* Has every stream that was drawn in come back to the first one? */
static bool is_joined(void)
{
	std::vector<bool> reached(fake.graph->nodes.size());
	std::vector<size_t> todo = fake.origin->last;

	while (!todo.empty()) {
		size_t at = todo.back();

		todo.pop_back();
		if (reached[at])
			continue;
		reached[at] = true;
		for (size_t before : fake.graph->nodes[at].after)
			todo.push_back(before);
	}
	for (cudaStream_t s : fake.streams)
		for (size_t at : s->last)
			if (s->captured && !reached[at])
				return false;
	return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	cudaError_t got = cudaSuccess;

	if (stream != fake.origin)
		return cudaErrorInvalidValue;
	if (fake.invalid)
		got = cudaErrorStreamCaptureInvalidated;
	else if (!is_joined())
		got = cudaErrorStreamCaptureUnjoined;
	for (cudaStream_t s : fake.streams) {
		s->captured = false;
		s->last.clear();
	}
	fake.origin = NULL;
	if (got) {
		delete fake.graph;
		fake.graphs--;
		return got;
	}
	*graph = fake.graph;
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	CALL();
	*event = new CUevent_st();
	fake.events++;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	delete event;
	fake.events--;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	CALL();
	event->captured = stream->captured;
	event->last = stream->last;
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (event->captured && fake.origin) {
		fake.invalid = true;
		return cudaErrorStreamCaptureUnsupported;
	}
	return call();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
	CALL();
	*exec = new CUgraph_st(*graph);
	fake.graphs++;
	return cudaSuccess;
}

/* One of the nodes that nothing holds back any more, drawn at random, until all have run. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
	size_t n = exec->nodes.size();
	std::vector<size_t> waits(n), can;
	std::vector<std::vector<size_t>> next(n);

	CALL();
	fake.launches++;
	for (size_t i = 0; i < n; i++) {
		waits[i] = exec->nodes[i].after.size();
		for (size_t before : exec->nodes[i].after)
			next[before].push_back(i);
		if (!waits[i])
			can.push_back(i);
	}
	while (!can.empty()) {
		size_t which, at;

		fake.random = fake.random * 6364136223846793005u + 1442695040888963407u;
		which = (size_t)(fake.random >> 33) % can.size();
		at = can[which];
		can.erase(can.begin() + (long)which);
		exec->nodes[at].run();
		for (size_t i : next[at])
			if (--waits[i] == 0)
				can.push_back(i);
	}
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	delete graph;
	fake.graphs--;
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	delete exec;
	fake.graphs--;
	return cudaSuccess;
}
