/*
 * tensor: what every part of mltrain uses: shapes, random numbers, files of tensors. Knows nothing
 * of networks or data sets.
 *
 * This header: the extent of an array of floats, row-major (the last dimension is contiguous), and
 * types of numbers.
 */
#pragma once

#include "base/base.h"

#include <strings.h>

#define SHAPE_RANK_MAX 4
#define SHAPE_TEXT_MAX 64

struct shape {
	int rank;                /* 0: a scalar, one element */
	int dim[SHAPE_RANK_MAX]; /* all positive; those at and after rank are 1 */
};

static inline struct shape shape1(int a)
{
	return (struct shape){ 1, { a, 1, 1, 1 } };
}

static inline struct shape shape2(int a, int b)
{
	return (struct shape){ 2, { a, b, 1, 1 } };
}

static inline struct shape shape3(int a, int b, int c)
{
	return (struct shape){ 3, { a, b, c, 1 } };
}

static inline struct shape shape4(int a, int b, int c, int d)
{
	return (struct shape){ 4, { a, b, c, d } };
}

/* The number of elements; the shapes of a checked network cannot overflow it. */
static inline size_t shape_count(const struct shape *s)
{
	size_t n = 1;

	for (int i = 0; i < s->rank; i++)
		n *= (size_t)s->dim[i];
	return n;
}

/* "32x28x28" (a scalar: "1") into buf; returns buf. */
static inline char *shape_text(const struct shape *s, char buf[SHAPE_TEXT_MAX])
{
	size_t used = 0;

	snprintf(buf, SHAPE_TEXT_MAX, "1");
	for (int i = 0; i < s->rank; i++)
		used += (size_t)snprintf(
			buf + used, SHAPE_TEXT_MAX - used, "%s%d", i ? "x" : "", s->dim[i]);
	return buf;
}

/*
 * The numbers that a backend computes with. Parameters, their velocities and checkpoints are always
 * floats: bf16 keeps master weights (Micikevicius et al., "Mixed Precision Training", 2018).
 */
enum dtype {
	DTYPE_F32,  /* IEEE single precision throughout */
	DTYPE_TF32, /* products of 10 bits of mantissa, sums in f32: NVIDIA's tensor cores */
	DTYPE_BF16, /* activations and weights of 8 bits of mantissa, sums in f32 */
};

static inline const char *dtype_name(enum dtype d)
{
	static const char *const names[] = { "f32", "tf32", "bf16" };

	return names[d];
}

/* Returns the dtype of that name, or -1. */
static inline int dtype_find(const char *name)
{
	for (int d = DTYPE_F32; d <= DTYPE_BF16; d++)
		if (strcasecmp(name, dtype_name((enum dtype)d)) == 0)
			return d;
	return -1;
}
