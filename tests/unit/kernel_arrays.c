#include "unit.h"
#include "kernel_arrays.h"

#include <math.h>

const enum dtype dtypes[DTYPES] = { DTYPE_F32, DTYPE_TF32, DTYPE_BF16 };

/* A number as a dtype keeps it in memory, back as a float. */
static float rounded(enum dtype dtype, float x)
{
	uint32_t bits;

	if (dtype != DTYPE_BF16)
		return x;
	memcpy(&bits, &x, 4);
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
	memcpy(&x, &bits, 4);
	return x;
}

float *numbers(struct rng *r, enum dtype dtype, size_t n)
{
	float *x = xcalloc(n, sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = rng_below(r, 16) ? rounded(dtype, (float)(2 * rng_uniform(r) - 1)) : 0;
	return x;
}

void *stored(enum dtype dtype, const float *x, size_t n)
{
	void *ret = xcalloc(n, kernel_size(dtype));

	for (size_t i = 0; i < n && dtype == DTYPE_BF16; i++) {
		uint32_t bits;

		memcpy(&bits, &x[i], 4);
		((uint16_t *)ret)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	}
	if (dtype != DTYPE_BF16)
		memcpy(ret, x, n * sizeof(float));
	return ret;
}

void *room(enum dtype dtype, size_t n)
{
	void *ret = xcalloc(n, kernel_size(dtype));

	memset(ret, 0xff, n * kernel_size(dtype));
	return ret;
}

float value(enum dtype dtype, const void *x, size_t i)
{
	uint32_t bits;
	float ret;

	if (dtype != DTYPE_BF16)
		return ((const float *)x)[i];
	bits = (uint32_t)((const uint16_t *)x)[i] << 16;
	memcpy(&ret, &bits, 4);
	return ret;
}

float *planes(const float *x, size_t n, size_t c, size_t pixels)
{
	float *ret = xcalloc(n * c * pixels, sizeof(*ret));

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < c; k++)
			for (size_t p = 0; p < pixels; p++)
				ret[(i * c + k) * pixels + p] = x[(i * pixels + p) * c + k];
	return ret;
}

float *pixels_first(const float *x, size_t n, size_t c, size_t pixels)
{
	return planes(x, n, pixels, c);
}

void assert_close(const char *what, enum dtype dtype, const void *got, const float *want, size_t n,
	double terms)
{
	double loose = dtype == DTYPE_F32 ? 2e-6 : dtype == DTYPE_TF32 ? 1.5e-3 : 1e-5;
	double relative = dtype == DTYPE_BF16 ? 1.0 / 256 : 1e-5;

	for (size_t i = 0; i < n; i++) {
		double g = value(dtype, got, i),
		       bound = loose * sqrt(terms) + relative * fabs(want[i]);

		if (!(fabs(g - want[i]) <= bound))
			fail_msg("%s, %s: element %zu of %zu is %g, want %g within %g", what,
				dtype_name(dtype), i, n, g, want[i], bound);
	}
}

void assert_floats(const char *what, enum dtype dtype, const float *got, const float *want,
	size_t n, double terms)
{
	assert_close(what, dtype == DTYPE_TF32 ? DTYPE_TF32 : DTYPE_F32, got, want, n, terms);
}

static int go_forward(void **state)
{
	cuda_on_cpu_order(CUDA_ORDER_FORWARD);
	return 0;
}

static int go_back(void **state)
{
	cuda_on_cpu_order(CUDA_ORDER_REVERSE);
	return 0;
}

static int go_about(void **state)
{
	cuda_on_cpu_order(CUDA_ORDER_RANDOM);
	return 0;
}

int run_in_every_order(const struct CMUnitTest *tests, size_t n)
{
	static const char *const order[] = { "forward", "reverse", "random" };
	struct CMUnitTest *all = xcalloc(3 * n, sizeof(*all));
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	for (size_t i = 0; i < 3 * n; i++) {
		all[i] = tests[i % n];
		all[i].name =
			xasprintf("%s (threads run in %s order)", tests[i % n].name, order[i / n]);
		all[i].setup_func = i / n == 0 ? go_forward : i / n == 1 ? go_back : go_about;
	}
	failed = _cmocka_run_group_tests("kernels", all, 3 * n, NULL, NULL);
	for (size_t i = 0; i < 3 * n; i++)
		free((char *)(uintptr_t)all[i].name);
	free(all);
	return failed;
}
