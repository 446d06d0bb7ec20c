/*
 * Updates parameters by their gradients. An optimiser is a row of a table and a file: its loops are
 * in that file, once to be read and once to be fast; the caller owns all memory and the threads.
 *
 * The GPU has a kernel for SGD alone, backend/cuda/kernels/sgd.cu, which tests compare with
 * `plain`.
 */
#ifndef MLT_OPTIMISER_OPTIMISER_H
#define MLT_OPTIMISER_OPTIMISER_H

#include <stddef.h>
#include <stdint.h>

#define OPTIMISER_STATES_MAX 2

/* A stretch of parameters that are updated alike. */
struct optimiser_part {
	size_t at, count;
	float l2;
};

/* One step over all parameters. The blocks have one layout; grad is left as it was. */
struct optimiser_step {
	const struct optimiser_part *parts; /* [n], in order, without overlap */
	size_t n;
	float *param;
	float *state[OPTIMISER_STATES_MAX]; /* as many as the optimiser has; zero before step one */
	const float *grad;
	float lr, momentum;
	uint64_t number; /* of the step, from 0 on */
};

/*
 * Update elements at.. at+count-1 of the step's blocks.
 *
 * Returns the sum of squares of these parameters before.
 */
typedef double (*optimiser_update)(
	const struct optimiser_step *s, size_t at, size_t count, float l2);

struct optimiser {
	const char *name;
	/* The blocks as large as the parameters' that it keeps, as checkpoints call them. */
	const char *states[OPTIMISER_STATES_MAX + 1];
	optimiser_update plain; /* to be read and compared with */
	optimiser_update wide;  /* the same with wide vectors */
};

enum { OPTIMISER_SGD, OPTIMISER_ADAM, OPTIMISERS };

extern const struct optimiser optimisers[OPTIMISERS];

/* How many blocks an optimiser keeps. */
int optimiser_states(int which);

/* The rows' functions, a file each. sgd.c: g += l2 * p; v = momentum * v + g; p -= lr * v. */
double sgd_plain(const struct optimiser_step *s, size_t at, size_t count, float l2);
double sgd_wide(const struct optimiser_step *s, size_t at, size_t count, float l2);
double adam_plain(const struct optimiser_step *s, size_t at, size_t count, float l2);
double adam_wide(const struct optimiser_step *s, size_t at, size_t count, float l2);

/*
 * Update what lies in from.. to-1 of the blocks, whatever parts it falls into.
 *
 *   penalty   the sum over parts of l2 * (sum of squares before) / 2
 *   norm2     the sum of squares before
 */
void optimiser_run(optimiser_update update, const struct optimiser_step *s, size_t from, size_t to,
	double *penalty, double *norm2);

#endif
