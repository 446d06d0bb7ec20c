/*
 * A 2x2 window of max-pooling with the ReLU before it, for loops that write pooled results
 * directly. A byte for each element has the index of its maximum, so the backward pass needs no
 * activations.
 */
#pragma once

#include "tensor/wide.h"

#define WINDOW_DEAD 4 /* in place of a winner: the ReLU let nothing pass */

/*
 * Find the maximum of four and its index, the first of equals.
 *
 *   y        the upper left; the right is y[1], those below y[row] and y[row + 1]
 *   winner   0..3, or WINDOW_DEAD
 */
INLINE void window_forward(const vecf *y, int row, int relu, vecf *best, veci *winner)
{
	const vecf *at[4] = { y, y + 1, y + row, y + row + 1 };

	*best = *at[0];
	*winner = (veci){ 0 };
	for (int i = 1; i < 4; i++) {
		vecf v = *at[i];
		veci more = v > *best;

		*best = (vecf)(((veci)v & more) | ((veci)*best & ~more));
		*winner = (more & i) | (*winner & ~more);
	}
	if (relu) {
		veci dead = ~(*best > 0);

		*winner = (dead & WINDOW_DEAD) | (*winner & ~dead);
		*best = (vecf)((veci)*best & ~(veci)(*best < 0));
	}
}

/* Distribute the pooled gradient to the four. */
INLINE void window_backward(const vecf *dy, const veci *winner, vecf *y, int row)
{
	y[0] = (vecf)((veci)*dy & (veci)(*winner == 0));
	y[1] = (vecf)((veci)*dy & (veci)(*winner == 1));
	y[row] = (vecf)((veci)*dy & (veci)(*winner == 2));
	y[row + 1] = (vecf)((veci)*dy & (veci)(*winner == 3));
}

INLINE void winner_load(veci *to, const uint8_t *from)
{
	*to = __builtin_convertvector(*(const vecb *)from, veci);
}

INLINE void winner_store(uint8_t *to, const veci *from)
{
	*(vecb *)to = __builtin_convertvector(*from, vecb);
}
