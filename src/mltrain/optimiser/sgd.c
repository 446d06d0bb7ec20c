/* Momentum SGD. state[0] is the velocity v. */
#include "optimiser/optimiser.h"
#include "tensor/wide.h"

/* At -O2 gcc 12 leaves the wide loop scalar. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define LANES WIDE_LANES
#define CHUNK 1024 /* floats summed in single precision before their sum joins the double */

double sgd_plain(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	float *p = s->param, *v = s->state[0];
	double norm2 = 0;

	for (size_t i = at; i < at + count; i++) {
		norm2 += (double)p[i] * p[i];
		v[i] = s->momentum * v[i] + (s->grad[i] + l2 * p[i]);
		p[i] -= s->lr * v[i];
	}
	return norm2;
}

/* Returns the sum of squares before. */
INLINE double sgd_chunk(size_t n, float *restrict p, float *restrict v, const float *restrict g,
	float lr, float momentum, float l2)
{
	float lane[LANES] = { 0 };
	double sum = 0;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++) {
			float w = p[i + k], u = momentum * v[i + k] + (g[i + k] + l2 * w);

			lane[k] += w * w;
			v[i + k] = u;
			p[i + k] = w - lr * u;
		}
	for (; i < n; i++) {
		float w = p[i], u = momentum * v[i] + (g[i] + l2 * w);

		lane[0] += w * w;
		v[i] = u;
		p[i] = w - lr * u;
	}
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

WIDE static double sgd_in_chunks(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	size_t end = at + count;
	double sum = 0;

	for (; at < end; at += CHUNK)
		sum += sgd_chunk(end - at < CHUNK ? end - at : CHUNK, s->param + at,
			s->state[0] + at, s->grad + at, s->lr, s->momentum, l2);
	return sum;
}

double sgd_wide(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	return sgd_in_chunks(s, at, count, l2);
}
