/* Its longjmp() refuses to go to another stack. */
#undef _FORTIFY_SOURCE

#include "cuda_on_cpu.h"
#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/kernels.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <vector>

#ifdef MLR_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES ((size_t)128 << 10)
#define THREADS_MAX 1024

dim3 threadIdx, blockIdx, blockDim, gridDim;
int cuda_on_cpu_overlap;
void (*cuda_on_cpu_submit)(cudaStream_t stream, std::function<void()> launch);

enum state { RUNS, AT_BLOCK_BARRIER, AT_WARP_BARRIER, ENDED };

/* Where a thread goes on. AddressSanitizer follows swapcontext() alone. That asks the kernel for
 * the signal mask each time, half of the tests' time: other builds only begin a thread with a
 * ucontext_t. */
struct context {
	bool begins;
	ucontext_t begin;
	jmp_buf at;
};

struct fiber {
	struct context context;
	char *stack;
	enum state state;
	void *fake; /* AddressSanitizer's own stack */
	unsigned collectives;
	bool waited; /* for the kernel before */
};

/* What lanes of a warp gave each other; two turns, so that one barrier between uses is enough. */
struct warp {
	unsigned char gave[2][WARP][64];
};

static struct {
	enum cuda_order order;
	unsigned threads, now;
	fiber fibers[THREADS_MAX];
	warp warps[THREADS_MAX / WARP];
	unsigned turn[THREADS_MAX];  /* in which order threads run */
	unsigned place[THREADS_MAX]; /* a thread's in that order */
	unsigned char *shared;
	const std::function<void()> *body;
	struct context main;
	void *main_fake;
	const void *main_stack;
	size_t main_stack_bytes;
	uint64_t random;
} cpu;

void cuda_on_cpu_order(enum cuda_order order)
{
	cpu.order = order;
}

static unsigned draw(unsigned below)
{
	cpu.random = cpu.random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(cpu.random >> 33) % below;
}

/* An order of 0..n-1. */
static void arrange(unsigned *to, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		to[i] = cpu.order == CUDA_ORDER_REVERSE ? n - 1 - i : i;
	for (unsigned i = n; cpu.order == CUDA_ORDER_RANDOM && i > 1; i--)
		std::swap(to[i - 1], to[draw(i)]);
}

static void entered(void *fake)
{
#ifdef MLR_SANITIZED
	const void *stack;
	size_t bytes;

	__sanitizer_finish_switch_fiber(fake, &stack, &bytes);
	if (!cpu.main_stack) {
		cpu.main_stack = stack;
		cpu.main_stack_bytes = bytes;
	}
#else
	(void)fake;
#endif
}

/* From one context to another; returns when somebody comes back. */
static void change(context *from, void **fake, context *to, const void *stack, size_t bytes)
{
#ifdef MLR_SANITIZED
	__sanitizer_start_switch_fiber(fake, stack, bytes);
	swapcontext(&from->begin, &to->begin);
#else
	(void)stack;
	(void)bytes;
	if (!_setjmp(from->at)) {
		if (!to->begins)
			_longjmp(to->at, 1);
		to->begins = false;
		setcontext(&to->begin);
	}
#endif
	entered(fake ? *fake : NULL);
}

static void to_fiber(context *from, void **fake, unsigned which)
{
	cpu.now = which;
	threadIdx = dim3(which);
	change(from, fake, &cpu.fibers[which].context, cpu.fibers[which].stack, STACK_BYTES);
}

static bool all_wait(unsigned from, unsigned to, enum state at)
{
	for (unsigned i = from; i < to; i++)
		if (cpu.fibers[i].state != at && cpu.fibers[i].state != ENDED)
			return false;
	return true;
}

static void release(unsigned from, unsigned to, enum state at)
{
	for (unsigned i = from; i < to; i++)
		if (cpu.fibers[i].state == at)
			cpu.fibers[i].state = RUNS;
}

/* Let those go on who have all arrived. */
static void open_barriers(void)
{
	if (all_wait(0, cpu.threads, AT_BLOCK_BARRIER))
		release(0, cpu.threads, AT_BLOCK_BARRIER);
	for (unsigned at = 0; at < cpu.threads; at += WARP) {
		unsigned end = at + WARP < cpu.threads ? at + WARP : cpu.threads;

		if (all_wait(at, end, AT_WARP_BARRIER))
			release(at, end, AT_WARP_BARRIER);
	}
}

/* The next thread that can run, of this warp first, so that warps drift apart; -1: none. */
static int choose(unsigned after)
{
	unsigned at = cpu.place[after];
	int other = -1;

	for (unsigned i = 1; i <= cpu.threads; i++) {
		unsigned which = cpu.turn[(at + i) % cpu.threads];

		if (cpu.fibers[which].state != RUNS)
			continue;
		if (which / WARP == after / WARP)
			return (int)which;
		other = other < 0 ? (int)which : other;
	}
	return other;
}

static void give_way(enum state because)
{
	unsigned me = cpu.now;
	int next;

	cpu.fibers[me].state = because;
	if (because == AT_WARP_BARRIER) {
		unsigned at = me - me % WARP,
			 end = at + WARP < cpu.threads ? at + WARP : cpu.threads;

		if (all_wait(at, end, AT_WARP_BARRIER))
			release(at, end, AT_WARP_BARRIER);
	} else if (all_wait(0, cpu.threads, because)) {
		release(0, cpu.threads, because);
	}
	next = choose(me);
	if (next < 0) {
		open_barriers(); /* threads that ended may have been the last ones missing */
		next = choose(me);
	}
	if (next < 0) {
		fprintf(stderr, "cuda_on_cpu: block %u %u %u: threads wait at different barriers\n",
			blockIdx.x, blockIdx.y, blockIdx.z);
		abort();
	}
	if ((unsigned)next != me)
		to_fiber(&cpu.fibers[me].context, &cpu.fibers[me].fake, (unsigned)next);
}

void behind_previous(void)
{
	cpu.fibers[cpu.now].waited = true;
}

/* On a GPU a kernel may begin while the one before still writes what it reads. */
static void expect_waited(const char *doing)
{
	if (cpu.fibers[cpu.now].waited)
		return;
	fprintf(stderr, "cuda_on_cpu: a kernel %s without behind_previous()\n", doing);
	abort();
}

void __syncthreads(void)
{
	expect_waited("meets at a barrier");
	give_way(AT_BLOCK_BARRIER);
}

void __syncwarp(unsigned)
{
	give_way(AT_WARP_BARRIER);
}

unsigned char *shared_memory(void)
{
	return cpu.shared;
}

const unsigned char (*cuda_on_cpu_gather(const void *mine, size_t bytes))[64]
{
	unsigned me = cpu.now, turn = cpu.fibers[me].collectives++ & 1;
	unsigned char(*gave)[64] = cpu.warps[me / WARP].gave[turn];

	memcpy(gave[me % WARP], mine, bytes);
	__syncwarp();
	return gave;
}

/* Here kernels run one after the other; overlapping is a GPU's. */
void kernel_overlap(int on)
{
	cuda_on_cpu_overlap = on;
}

static void run_thread(void)
{
	int next;

	entered(NULL);
	(*cpu.body)();
	expect_waited("ends");
	cpu.fibers[cpu.now].state = ENDED;
	next = choose(cpu.now);
	if (next < 0) {
		open_barriers();
		next = choose(cpu.now);
	}
	if (next >= 0)
		to_fiber(&cpu.fibers[cpu.now].context, NULL, (unsigned)next);
	change(&cpu.fibers[cpu.now].context, NULL, &cpu.main, cpu.main_stack, cpu.main_stack_bytes);
}

static void run_block(size_t bytes)
{
	cpu.shared = (unsigned char *)aligned_alloc(16, bytes ? (bytes + 15) / 16 * 16 : 16);
	memset(cpu.shared, 0xff, bytes);
	for (unsigned i = 0; i < cpu.threads; i++) {
		fiber *f = &cpu.fibers[i];

		if (!f->stack)
			f->stack = (char *)malloc(STACK_BYTES);
		getcontext(&f->context.begin);
		f->context.begin.uc_stack.ss_sp = f->stack;
		f->context.begin.uc_stack.ss_size = STACK_BYTES;
		makecontext(&f->context.begin, run_thread, 0);
		f->context.begins = true;
		f->state = RUNS;
		f->collectives = 0;
		f->waited = false;
	}
	arrange(cpu.turn, cpu.threads);
	for (unsigned i = 0; i < cpu.threads; i++)
		cpu.place[cpu.turn[i]] = i;
	to_fiber(&cpu.main, &cpu.main_fake, cpu.turn[0]);
	for (unsigned i = 0; i < cpu.threads; i++)
		if (cpu.fibers[i].state != ENDED) {
			fprintf(stderr, "cuda_on_cpu: thread %u never ended\n", i);
			abort();
		}
	free(cpu.shared);
}

void cuda_on_cpu_run(
	const unsigned grid[3], unsigned threads, size_t bytes, const std::function<void()> &body)
{
	unsigned n = grid[0] * grid[1] * grid[2];
	std::vector<unsigned> order(n);

	cpu.threads = threads;
	cpu.body = &body;
	gridDim = dim3(grid[0], grid[1], grid[2]);
	blockDim = dim3(threads);
	arrange(order.data(), n);
	for (unsigned i = 0; i < n; i++) {
		unsigned at = order[i];

		blockIdx = dim3(at % grid[0], at / grid[0] % grid[1], at / grid[0] / grid[1]);
		run_block(bytes);
	}
}
