/*
 * Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11): four random
 * words from a counter and a key. Any rank can compute any element's number, in any order, on a CPU
 * or a GPU.
 */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_INLINE static __host__ __device__ __forceinline__
#else
#define PHILOX_INLINE static inline __attribute__((always_inline))
#endif

struct philox {
	uint32_t word[4];
};

PHILOX_INLINE struct philox philox(struct philox c, uint32_t k0, uint32_t k1)
{
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xd2511f53u * c.word[0];
		uint64_t p1 = (uint64_t)0xcd9e8d57u * c.word[2];

		c = (struct philox){ { (uint32_t)(p1 >> 32) ^ c.word[1] ^ k0, (uint32_t)p1,
			(uint32_t)(p0 >> 32) ^ c.word[3] ^ k1, (uint32_t)p0 } };
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	return c;
}

/*
 * The four words for elements 4 * block .. 4 * block + 3 of a dropout mask. An element's number is
 * (the image's row in the batch of all ranks) * (elements per image) + its index in [c][h][w].
 * An element is dropped if its word is below philox_threshold(rate).
 */
PHILOX_INLINE struct philox philox_dropout(
	uint64_t seed, uint64_t step, uint32_t layer, uint32_t block)
{
	struct philox c = { { block, layer, (uint32_t)step, (uint32_t)(step >> 32) } };

	return philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
}

PHILOX_INLINE uint32_t philox_threshold(float rate)
{
	return (uint32_t)((double)rate * 4294967296.0);
}
