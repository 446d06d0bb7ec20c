/*
 * Updates parameters by their gradients. An optimiser is a row of a table and a file with its
 * loops, plain and fast. The caller owns all memory and the threads.
 *
 * On a GPU they are rules of one kernel, backend/cuda/kernels/update.cu, which tests compare with
 * these.
 */
#pragma once

#include "base/base.h"

#include <math.h>

#define OPTIMISER_STATES_MAX 2

/* A range of parameters with the same factor of the penalty. */
struct optimiser_part {
	size_t at, count;
	float l2;
};

/* Make a step over all parameters. All blocks have the same layout; grad does not change. */
struct optimiser_step {
	const struct optimiser_part *parts; /* [n], in order, without overlap */
	size_t n;
	float *param;
	float *state[OPTIMISER_STATES_MAX]; /* [optimiser_states()]; all zero before step 0 */
	const float *grad;
	float lr, momentum;
	uint64_t number; /* of the step, from 0 */
};

/*
 * Update elements at.. at+count-1 of the step's blocks.
 *
 * Returns the sum of squares of these parameters before the update.
 */
typedef double (*optimiser_update)(
	const struct optimiser_step *s, size_t at, size_t count, float l2);

struct optimiser {
	const char *name;
	/* Names in checkpoints of the blocks that it keeps, each as large as the parameters'. */
	const char *states[OPTIMISER_STATES_MAX + 1];
	optimiser_update plain; /* for readers and comparison */
	optimiser_update wide;  /* the same with wide vectors */
	int decays;             /* l2 is a decay of weights beside the gradient, not a penalty */
};

enum { OPTIMISER_SGD, OPTIMISER_ADAM, OPTIMISER_ADAMW, OPTIMISERS };

extern const struct optimiser optimisers[OPTIMISERS];

/* Count the blocks that an optimiser keeps. */
int optimiser_states(int which);

#define ADAM_BETA2   0.999f
#define ADAM_EPSILON 1e-8f

/* Return the factor by which a moment of Adam's, which began as 0, is too small at a step. */
static inline double adam_bias(uint64_t number, double beta)
{
	return 1 - pow(beta, (double)number + 1);
}

/* The corrections of that as one factor of the parameters' change and one number beside the root
 * (end of section 2): p -= rate * m / (sqrt(v) + epsilon). */
struct adam_factors {
	float rate, epsilon;
};

static inline struct adam_factors adam_factors(float lr, float beta1, uint64_t number)
{
	double root = sqrt(adam_bias(number, ADAM_BETA2));

	return (struct adam_factors){ (float)(lr * root / adam_bias(number, beta1)),
		(float)(ADAM_EPSILON * root) };
}

/* The functions of the rows, a file for each. sgd.c: g += l2 * p; v = momentum * v + g; p -= lr *
 * v. */
double sgd_plain(const struct optimiser_step *s, size_t at, size_t count, float l2);
double sgd_wide(const struct optimiser_step *s, size_t at, size_t count, float l2);
double adam_plain(const struct optimiser_step *s, size_t at, size_t count, float l2);
double adam_wide(const struct optimiser_step *s, size_t at, size_t count, float l2);
double adam_decoupled_plain(const struct optimiser_step *s, size_t at, size_t count, float l2);
double adam_decoupled_wide(const struct optimiser_step *s, size_t at, size_t count, float l2);

/*
 * Update elements from..to-1 of the blocks, which may span several parts.
 *
 *   penalty   set to the sum over parts of l2 * (sum of squares before) / 2; 0 if l2 is no penalty
 *   norm2     set to the sum of squares before
 */
void optimiser_run(const struct optimiser *o, optimiser_update update,
	const struct optimiser_step *s, size_t from, size_t to, double *penalty, double *norm2);
