/*
 * Bytes of images on their way into a network: what batch_gather() (tensor/batch.h) says, for one
 * value.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/kernels.h"

/* One image of a batch. */
struct source_image {
	const uint8_t *bytes; /* [c][h][w] */
	struct augment augment;
};

static __device__ __forceinline__ struct source_image source_row(
	const struct kernel_source &s, int row)
{
	size_t at = (size_t)(s.now ? *s.now : 0) * (size_t)s.rows + (size_t)row;
	size_t which = s.index ? s.index[at] : at;
	struct source_image ret = {};

	ret.bytes = s.images + which * (size_t)s.c * (size_t)s.h * (size_t)s.w;
	if (s.augment)
		ret.augment = s.augment[at];
	return ret;
}

/* The byte of channel c of pixel (i, j), which lies within the image; -1: it is cut out. */
static __device__ __forceinline__ int source_byte(
	const struct kernel_source &s, const struct source_image &image, int c, int i, int j)
{
	const struct augment &a = image.augment;
	int y, x;
	bool inside;

	if (!s.augment)
		return image.bytes[(c * s.h + i) * s.w + j];
	if (i >= a.cut_y && i < a.cut_y + a.cut && j >= a.cut_x && j < a.cut_x + a.cut)
		return -1;
	y = i - a.down;
	x = j - a.right;
	inside = (unsigned)y < (unsigned)s.h && (unsigned)x < (unsigned)s.w;
	return inside ? image.bytes[(c * s.h + y) * s.w + (a.flip ? s.w - 1 - x : x)] : 0;
}

/* The number that a byte of channel c stands for. */
static __device__ __forceinline__ float source_number(
	const struct kernel_source &s, int c, int byte)
{
	return byte < 0 ? 0 : ((float)byte - s.norm.mean[c]) / s.norm.scale[c];
}
