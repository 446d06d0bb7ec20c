#include "tensor/rng.h"

#include "tensor/philox.h"

#include <math.h>

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static uint64_t splitmix64(uint64_t *x)
{
	return rng_mix(*x += 0x9e3779b97f4a7c15);
}

void rng_init(struct rng *r, uint64_t seed, enum rng_purpose purpose, uint64_t index)
{
	uint64_t x = seed;

	x = splitmix64(&x) ^ (uint64_t)purpose;
	x = splitmix64(&x) ^ index;
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix64(&x);
}

uint64_t rng_next(struct rng *r)
{
	uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	uint64_t m = (rng_next(r) >> 32) * n;

	if ((uint32_t)m < n) {
		uint32_t threshold = -n % n;

		while ((uint32_t)m < threshold)
			m = (rng_next(r) >> 32) * n;
	}
	return (uint32_t)(m >> 32);
}

double rng_uniform(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* Marsaglia's polar method. The second number of each pair is discarded, so that a stream's state
 * is only its four words. */
double rng_normal_cut(struct rng *r, double sigma)
{
	for (;;) {
		double u = 2 * rng_uniform(r) - 1, v = 2 * rng_uniform(r) - 1, q = u * u + v * v, z;

		if (q >= 1 || q == 0)
			continue;
		z = u * sqrt(-2 * log(q) / q);
		if (fabs(z) <= 2)
			return sigma * z;
	}
}

void rng_shuffle(struct rng *r, uint32_t *order, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = rng_below(r, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
}

void rng_dropout(uint64_t seed, uint64_t step, uint32_t layer, float rate, uint64_t first,
	float *mask, size_t n)
{
	uint32_t threshold = philox_threshold(rate);
	float keep = 1 / (1 - rate);

	for (size_t i = 0; i < n; i += 4) {
		struct philox p = philox_dropout(seed, step, layer, (uint32_t)((first + i) / 4));

		for (size_t k = 0; k < 4 && i + k < n; k++)
			mask[i + k] = p.word[k] < threshold ? 0 : keep;
	}
}
