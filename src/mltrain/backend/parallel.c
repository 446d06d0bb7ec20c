#include "backend/parallel.h"

/* libgomp's, declared here because its header comes with gcc alone (OpenMP 5.0, 3.2; GCC's
 * libgomp manual, "Implementing PARALLEL construct"). */
extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
extern void omp_set_num_threads(int threads);
extern void omp_set_dynamic(int dynamic);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);

void parallel_init(int threads)
{
	omp_set_dynamic(0); /* the shares, and so the sums, depend on the number of threads */
	omp_set_num_threads(threads);
}

struct call {
	parallel_work work;
	void *ctx;
};

static void in_thread(void *data)
{
	struct call *c = data;

	c->work(c->ctx, omp_get_thread_num(), omp_get_num_threads());
}

void parallel_run(parallel_work work, void *ctx)
{
	struct call c = { work, ctx };

	GOMP_parallel(in_thread, &c, 0, 0);
}
