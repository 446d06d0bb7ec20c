/*
 * Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 1), with
 * beta1 the recipe's momentum. state[0] is the first moment m, state[1] the second moment v.
 *
 * AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2)
 * keeps l2 out of the moments: each step takes lr * l2 * p off the parameters, as PyTorch's does.
 */
#include "optimiser/optimiser.h"
#include "tensor/wide.h"

/* At -O2 gcc 12 leaves the wide loop scalar, and sqrtf(3) does so where it may set errno. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno")
#endif

#define CHUNK 1024 /* floats whose squares are summed in single precision */

static double plain(const struct optimiser_step *s, size_t at, size_t count, float l2, float decay)
{
	float *p = s->param, *m = s->state[0], *v = s->state[1];
	double norm2 = 0, of_m = adam_bias(s->number, s->momentum);
	double of_v = adam_bias(s->number, ADAM_BETA2);

	for (size_t i = at; i < at + count; i++) {
		float g = s->grad[i] + l2 * p[i];

		norm2 += (double)p[i] * p[i];
		m[i] = s->momentum * m[i] + (1 - s->momentum) * g;
		v[i] = ADAM_BETA2 * v[i] + (1 - ADAM_BETA2) * g * g;
		p[i] -= s->lr * decay * p[i];
		p[i] -= (float)(s->lr * (m[i] / of_m) / (sqrt(v[i] / of_v) + ADAM_EPSILON));
	}
	return norm2;
}

double adam_plain(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	return plain(s, at, count, l2, 0);
}

double adam_decoupled_plain(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	return plain(s, at, count, 0, l2);
}

/* rate and epsilon include the corrections of the bias (end of section 2); kept is the share of a
 * parameter that decay leaves. Returns the sum of
 * squares before. */
INLINE float adam_chunk(size_t n, float *restrict p, float *restrict m, float *restrict v,
	const float *restrict grad, float rate, float epsilon, float beta1, float l2, float kept)
{
	float lane[WIDE_LANES] = { 0 }, sum = 0;

	for (size_t i = 0; i + WIDE_LANES <= n; i += WIDE_LANES)
		for (size_t k = 0; k < WIDE_LANES; k++) {
			float w = p[i + k], g = grad[i + k] + l2 * w;

			lane[k] += w * w;
			m[i + k] = beta1 * m[i + k] + (1 - beta1) * g;
			v[i + k] = ADAM_BETA2 * v[i + k] + (1 - ADAM_BETA2) * g * g;
			p[i + k] = kept * w - rate * m[i + k] / (sqrtf(v[i + k]) + epsilon);
		}
	for (size_t i = n - n % WIDE_LANES; i < n; i++) {
		float w = p[i], g = grad[i] + l2 * w;

		sum += w * w;
		m[i] = beta1 * m[i] + (1 - beta1) * g;
		v[i] = ADAM_BETA2 * v[i] + (1 - ADAM_BETA2) * g * g;
		p[i] = kept * w - rate * m[i] / (sqrtf(v[i]) + epsilon);
	}
	for (int k = 0; k < WIDE_LANES; k++)
		sum += lane[k];
	return sum;
}

WIDE static double adam_in_chunks(const struct optimiser_step *s, size_t at, size_t count,
	float rate, float epsilon, float l2, float kept)
{
	size_t end = at + count;
	double sum = 0;

	for (; at < end; at += CHUNK)
		sum += adam_chunk(end - at < CHUNK ? end - at : CHUNK, s->param + at,
			s->state[0] + at, s->state[1] + at, s->grad + at, rate, epsilon,
			s->momentum, l2, kept);
	return sum;
}

static double wide(const struct optimiser_step *s, size_t at, size_t count, float l2, float decay)
{
	struct adam_factors f = adam_factors(s->lr, s->momentum, s->number);

	return adam_in_chunks(s, at, count, f.rate, f.epsilon, l2, 1 - s->lr * decay);
}

double adam_wide(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	return wide(s, at, count, l2, 0);
}

double adam_decoupled_wide(const struct optimiser_step *s, size_t at, size_t count, float l2)
{
	return wide(s, at, count, 0, l2);
}
