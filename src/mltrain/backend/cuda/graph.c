/*
 * CUDA graphs (CUDA Programming Guide, "CUDA Graphs"): a step's kernels are captured once and then
 * launched as one thing, several steps to a launch. The first call goes kernel by kernel, so that
 * what loads modules or allocates does so before a capture, which may forbid it.
 */
#include "backend/cuda/engine.h"

#define UNROLL 8 /* steps that are one graph */

/* Put it on the streams: steps steps, or with 0 a prediction. */
static int put(struct cuda *c, const uint8_t *images, int altered, int steps, struct mlr_error *err)
{
	struct kernel_source from = cuda_source(c, images, altered);
	const struct tensor_memory *logits = &c->tensor[c->nodes.node[c->nodes.n - 1].y];

	for (int i = 0; i < steps; i++) {
		TRY(cuda_forward(c, &from, 1, err));
		TRY(cuda_backward(c, err));
	}
	if (steps)
		return 0;
	TRY(cuda_forward(c, &from, 0, err));
	CU_TRY(cudaMemcpyAsync(c->logits_host, logits->y,
		(size_t)c->engine.batch * (size_t)c->classes * sizeof(float),
		cudaMemcpyDeviceToHost, c->stream));
	return 0;
}

static struct captured *find(struct cuda *c, const uint8_t *images, int altered, int steps)
{
	for (int i = 0; i < c->graphs; i++) {
		struct captured *g = &c->graph[i];

		if (g->images == images && g->augment == altered && g->steps == steps)
			return g;
	}
	return NULL;
}

/* Capture into a new place. */
static int capture(
	struct cuda *c, const uint8_t *images, int altered, int steps, struct mlr_error *err)
{
	struct captured g = { NULL, images, altered, steps };
	cudaGraph_t graph = NULL;
	int r, end;

	kernel_overlap(c->overlaps);
	CU_TRY(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
	r = put(c, images, altered, steps, err);
	end = CU(cudaStreamEndCapture(c->stream, &graph)); /* also when it failed */
	if (r == 0)
		r = end;
	if (r == 0)
		r = CU(cudaGraphInstantiate(&g.exec, graph, 0));
	if (graph)
		cudaGraphDestroy(graph);
	if (r == 0)
		c->graph[c->graphs++] = g;
	return r;
}

/* Capture, again without overlapping kernels where the driver will not have them. */
static int capture_somehow(
	struct cuda *c, const uint8_t *images, int altered, int steps, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	int r = capture(c, images, altered, steps, &why);

	if (r == 0)
		return 0;
	cudaGetLastError();
	if (!c->overlaps)
		return mlr_pass(err, why.code, why.text);
	mlr_debug("cuda: without overlapping kernels: %s", why.text);
	c->overlaps = 0;
	return capture(c, images, altered, steps, err);
}

/* Launch a graph of so many steps, made if need be; without graphs, put it on the streams. */
static int launch(
	struct cuda *c, const uint8_t *images, int altered, int steps, struct mlr_error *err)
{
	struct captured *g = find(c, images, altered, steps);
	struct mlr_error why = MLR_ERROR_INIT;

	if (!g && !c->graphs_off && reduce_is_on_streams(c) && c->graphs < GRAPHS_MAX &&
		c->warm[steps > 0]) {
		if (capture_somehow(c, images, altered, steps, &why) < 0) {
			mlr_debug("cuda: without CUDA graphs: %s", why.text);
			c->graphs_off = 1;
		}
		g = find(c, images, altered, steps);
	}
	if (!g)
		return put(c, images, altered, steps, err);
	CU_TRY(cudaGraphLaunch(g->exec, c->stream));
	return 0;
}

int cuda_graph_run(struct cuda *c, const uint8_t *images, int altered, int n, struct mlr_error *err)
{
	int left = n;

	if (n == 0)
		TRY(launch(c, images, altered, 0, err));
	while (left > 0) {
		int steps = left >= UNROLL && c->warm[1] ? UNROLL : 1;

		TRY(launch(c, images, altered, steps, err));
		left -= steps;
		c->warm[1] = 1;
	}
	c->warm[n > 0] = 1;
	return 0;
}

void cuda_graph_drop(struct cuda *c)
{
	for (int i = 0; i < c->graphs; i++)
		cudaGraphExecDestroy(c->graph[i].exec);
	c->graphs = 0;
}
