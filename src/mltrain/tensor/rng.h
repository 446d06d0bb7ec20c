/*
 * Random numbers that are the same on every machine and for every backend: xoshiro256**
 * (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018), whose state is
 * filled by splitmix64 as its authors advise.
 *
 * A run has one seed. Each use draws from its own stream, named by a purpose and an index (the
 * epoch, the step, the layer). What one part draws therefore never changes another's numbers, and
 * any step's numbers can be computed again without those before it.
 */
#pragma once

#include "base/base.h"

struct rng {
	uint64_t s[4];
};

enum rng_purpose {
	RNG_WEIGHTS = 1,
	RNG_SHUFFLE = 2,
	RNG_DROPOUT = 3,
	RNG_SPLIT = 4,
	RNG_TEST = 99
};

/* Mix the bits of a number: SplitMix64's last lines (Steele, Lea and Flood, 2014). */
static inline uint64_t rng_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Start the stream (seed, purpose, index). */
void rng_init(struct rng *r, uint64_t seed, enum rng_purpose purpose, uint64_t index);

/* 64 random bits. */
uint64_t rng_next(struct rng *r);

/* A whole number in [0, n), without bias (Lemire, "Fast random integer generation in an interval",
 * 2019); n > 0. */
uint32_t rng_below(struct rng *r, uint32_t n);

/* A double in [0, 1). */
double rng_uniform(struct rng *r);

/* A draw from the normal distribution of mean 0 and deviation sigma, truncated at 2 sigma: draws
 * beyond are drawn again. TensorFlow's truncated_normal and PyTorch's trunc_normal_ have the same
 * distribution. */
double rng_normal_cut(struct rng *r, double sigma);

/* Fill order[] with 0..n-1 in random order (Fisher and Yates). */
void rng_shuffle(struct rng *r, uint32_t *order, uint32_t n);

/*
 * Part of a dropout mask: 1/(1-rate) with probability 1-rate, else 0. This is inverted dropout
 * (Srivastava et al., 2014, section 10): prediction needs no scaling. The numbers are philox.h's,
 * keyed by seed, step, layer and element, so any part can be computed alone.
 *
 *   rate    in [0, 1)
 *   first   the first element, a multiple of 4
 *   mask    [n]
 */
void rng_dropout(uint64_t seed, uint64_t step, uint32_t layer, float rate, uint64_t first,
	float *mask, size_t n);
