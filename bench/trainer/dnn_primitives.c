/*
 * oneDNN's bare primitives for the reference network: each convolution and dense layer, forward and
 * both directions backward, by itself, in the formats that oneDNN likes best (2.x's C API):
 *
 *   OMP_NUM_THREADS=N dnn_primitives f32|bf16 BATCH STEPS      cc -O2 dnn_primitives.c -ldnnl
 *
 * Prints a line a primitive (milliseconds, the mean of the steps) and the rate at which a step of
 * nothing else would train.
 */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if DNNL_VERSION_MAJOR != 2
#error "dnn_primitives.c speaks oneDNN 2.x"
#endif

#define WARM_UP  3
#define ARGS_MAX 4

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static int batch, steps;
static dnnl_data_type_t type;

static void check(dnnl_status_t status, const char *what)
{
	if (status == dnnl_success)
		return;
	fprintf(stderr, "dnn_primitives: %s: status %d\n", what, (int)status);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dnnl_memory_desc_t any(int rank, const dnnl_dims_t dims, dnnl_data_type_t of)
{
	dnnl_memory_desc_t md;

	check(dnnl_memory_desc_init_by_tag(&md, rank, dims, of, dnnl_format_tag_any),
		"describe an array");
	return md;
}

static dnnl_memory_desc_t row(dnnl_dim_t n)
{
	dnnl_memory_desc_t md;
	dnnl_dims_t dims = { n };

	check(dnnl_memory_desc_init_by_tag(&md, 1, dims, dnnl_f32, dnnl_a), "describe biases");
	return md;
}

/* Memory in the format that the primitive chose, of small numbers that are not 0: bytes of 0x3c
 * make 0.01 of floats and of bf16 alike. */
static dnnl_memory_t memory(const_dnnl_primitive_desc_t pd, int arg)
{
	const dnnl_memory_desc_t *md =
		dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
	dnnl_memory_t m;
	void *data;

	check(dnnl_memory_create(&m, md, engine, DNNL_MEMORY_ALLOCATE), "allocate");
	check(dnnl_memory_get_data_handle(m, &data), "allocate");
	memset(data, 0x3c, dnnl_memory_desc_get_size(md));
	return m;
}

/* Returns the mean seconds of a primitive's execution. */
static double timed(
	const char *layer, const char *direction, const_dnnl_primitive_desc_t pd, const int *names)
{
	dnnl_exec_arg_t args[ARGS_MAX];
	dnnl_primitive_t primitive;
	double seconds, start = 0;
	int n = 0;

	for (; n < ARGS_MAX && names[n]; n++)
		args[n] = (dnnl_exec_arg_t){ names[n], memory(pd, names[n]) };
	check(dnnl_primitive_create(&primitive, pd), "make a primitive");
	for (int i = -WARM_UP; i < steps; i++) {
		if (i == 0)
			start = now();
		check(dnnl_primitive_execute(primitive, stream, n, args), "execute");
		check(dnnl_stream_wait(stream), "wait");
	}
	seconds = (now() - start) / steps;
	printf("%s %s: %.3f ms\n", layer, direction, 1e3 * seconds);
	for (int i = 0; i < n; i++)
		dnnl_memory_destroy(args[i].memory);
	dnnl_primitive_destroy(primitive);
	return seconds;
}

static const int forward_args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST };
static const int data_args[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0 };
static const int weights_args[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
	DNNL_ARG_DIFF_BIAS };

static double one(const char *layer, const char *direction, const void *desc,
	const_dnnl_primitive_desc_t hint, const int *args, dnnl_primitive_desc_t *keep)
{
	dnnl_primitive_desc_t pd;
	double seconds;

	check(dnnl_primitive_desc_create(&pd, desc, NULL, engine, hint),
		"choose an implementation");
	seconds = timed(layer, direction, pd, args);
	if (keep)
		*keep = pd;
	else
		dnnl_primitive_desc_destroy(pd);
	return seconds;
}

/* A convolution 5x5 of side x side images; the first layer's input needs no gradient. */
static double conv(const char *name, int channels, int side, int filters, int needs_data)
{
	const dnnl_dims_t x = { batch, channels, side, side }, w = { filters, channels, 5, 5 };
	const dnnl_dims_t y = { batch, filters, side, side }, stride = { 1, 1 }, pad = { 2, 2 };
	dnnl_memory_desc_t src = any(4, x, type), weights = any(4, w, type), dst = any(4, y, type),
			   bias = row(filters);
	dnnl_convolution_desc_t d;
	dnnl_primitive_desc_t forward;
	double sum;

	check(dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_auto,
		      &src, &weights, &bias, &dst, stride, pad, pad),
		name);
	sum = one(name, "forward", &d, NULL, forward_args, &forward);
	if (needs_data) {
		check(dnnl_convolution_backward_data_desc_init(
			      &d, dnnl_convolution_auto, &src, &weights, &dst, stride, pad, pad),
			name);
		sum += one(name, "backward data", &d, forward, data_args, NULL);
	}
	check(dnnl_convolution_backward_weights_desc_init(
		      &d, dnnl_convolution_auto, &src, &weights, &bias, &dst, stride, pad, pad),
		name);
	sum += one(name, "backward weights", &d, forward, weights_args, NULL);
	dnnl_primitive_desc_destroy(forward);
	return sum;
}

static double dense(const char *name, int inputs, int outputs)
{
	const dnnl_dims_t x = { batch, inputs }, w = { outputs, inputs }, y = { batch, outputs };
	dnnl_memory_desc_t src = any(2, x, type), weights = any(2, w, type), dst = any(2, y, type),
			   bias = row(outputs);
	dnnl_inner_product_desc_t d;
	dnnl_primitive_desc_t forward;
	double sum;

	check(dnnl_inner_product_forward_desc_init(
		      &d, dnnl_forward_training, &src, &weights, &bias, &dst),
		name);
	sum = one(name, "forward", &d, NULL, forward_args, &forward);
	check(dnnl_inner_product_backward_data_desc_init(&d, &src, &weights, &dst), name);
	sum += one(name, "backward data", &d, forward, data_args, NULL);
	check(dnnl_inner_product_backward_weights_desc_init(&d, &src, &weights, &bias, &dst), name);
	sum += one(name, "backward weights", &d, forward, weights_args, NULL);
	dnnl_primitive_desc_destroy(forward);
	return sum;
}

int main(int argc, char **argv)
{
	double sum;

	if (argc == 4) {
		type = strcmp(argv[1], "bf16") == 0 ? dnnl_bf16 : dnnl_f32;
		batch = atoi(argv[2]);
		steps = atoi(argv[3]);
	}
	if (batch < 1 || steps < 1) {
		fprintf(stderr, "usage: dnn_primitives f32|bf16 BATCH STEPS\n");
		return 2;
	}
	check(dnnl_engine_create(&engine, dnnl_cpu, 0), "make an engine");
	check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "make a stream");
	sum = conv("conv1", 1, 28, 32, 0) + conv("conv2", 32, 14, 64, 1) + dense("fc1", 3136, 512) +
		dense("fc2", 512, 10);
	printf("%.0f images/s\n", batch / sum);
	return 0;
}
