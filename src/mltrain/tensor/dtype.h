/*
 * The numbers that a backend computes with. Parameters, their velocities and checkpoints are always
 * floats: bf16 keeps master weights (Micikevicius et al., "Mixed Precision Training", 2018).
 */
#ifndef MLT_TENSOR_DTYPE_H
#define MLT_TENSOR_DTYPE_H

#include <strings.h>

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

#endif
