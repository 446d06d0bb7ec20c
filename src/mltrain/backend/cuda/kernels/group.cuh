/*
 * Eight neighbours in memory at once, or fewer at an array's end, as floats.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"

#define GROUP 8

struct group {
	float v[GROUP];
};

/* May groups at multiples of GROUP from here be moved whole? */
static inline bool group_aligned(const void *p)
{
	return (uintptr_t)p % 16 == 0;
}

static __device__ __forceinline__ void load_whole(const float *from, struct group *g)
{
	float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];

	*g = { { a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w } };
}

static __device__ __forceinline__ void load_whole(const bf16 *from, struct group *g)
{
	uint4 a = *(const uint4 *)from;
	uint32_t pair[4] = { a.x, a.y, a.z, a.w };

#pragma unroll
	for (int i = 0; i < 4; i++) {
		g->v[2 * i] = __uint_as_float(pair[i] << 16);
		g->v[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
	}
}

static __device__ __forceinline__ void store_whole(float *to, const struct group &g)
{
	((float4 *)to)[0] = make_float4(g.v[0], g.v[1], g.v[2], g.v[3]);
	((float4 *)to)[1] = make_float4(g.v[4], g.v[5], g.v[6], g.v[7]);
}

static __device__ __forceinline__ void store_whole(bf16 *to, const struct group &g)
{
	uint4 a;

	a.x = pack_bf16(g.v[0], g.v[1]);
	a.y = pack_bf16(g.v[2], g.v[3]);
	a.z = pack_bf16(g.v[4], g.v[5]);
	a.w = pack_bf16(g.v[6], g.v[7]);
	*(uint4 *)to = a;
}

static __device__ __forceinline__ void store_one(float *to, float x)
{
	*to = x;
}

static __device__ __forceinline__ void store_one(bf16 *to, float x)
{
	to->bits = (uint16_t)pack_bf16(x, 0);
}

/* count numbers, whole when there are GROUP and memory is aligned. */
template <class T>
static __device__ __forceinline__ struct group load_group(const T *from, int count, bool aligned)
{
	struct group g = {};

	if (count >= GROUP && aligned) {
		load_whole(from, &g);
		return g;
	}
#pragma unroll
	for (int i = 0; i < GROUP; i++)
		if (i < count)
			g.v[i] = to_float(from[i]);
	return g;
}

template <class T>
static __device__ __forceinline__ void store_group(
	T *to, const struct group &g, int count, bool aligned)
{
	if (count >= GROUP && aligned) {
		store_whole(to, g);
		return;
	}
#pragma unroll
	for (int i = 0; i < GROUP; i++)
		if (i < count)
			store_one(to + i, g.v[i]);
}

static __device__ __forceinline__ void add_group(struct group *sum, const struct group &g)
{
#pragma unroll
	for (int i = 0; i < GROUP; i++)
		sum->v[i] += g.v[i];
}

static __device__ __forceinline__ void divide_group(struct group *g, float by)
{
#pragma unroll
	for (int i = 0; i < GROUP; i++)
		g->v[i] /= by;
}
