/*
 * A 2x2 window of max-pooling with the ReLU before it, for loops that write pooled results
 * directly. A byte for each element has the index of its maximum, so the backward pass needs no
 * activations.
 */
#ifndef MLT_BACKEND_WINDOW_H
#define MLT_BACKEND_WINDOW_H

#include "tensor/wide.h"

#define WINDOW_DEAD 4 /* in place of a winner: the ReLU let nothing pass */

/*
 * Find the maximum of four and its index, the first of equals.
 *
 *   y        the upper left; the right is y[1], those below y[row] and y[row + 1]
 *   winner   0..3, or WINDOW_DEAD
 */
INLINE void window_forward(const vec16 *y, int row, int relu, vec16 *best, mask16 *winner)
{
	const vec16 *at[4] = { y, y + 1, y + row, y + row + 1 };

	*best = *at[0];
	*winner = (mask16){ 0 };
	for (int i = 1; i < 4; i++) {
		vec16 v = *at[i];
		mask16 more = v > *best;

		*best = (vec16)(((mask16)v & more) | ((mask16)*best & ~more));
		*winner = (more & i) | (*winner & ~more);
	}
	if (relu) {
		mask16 dead = ~(*best > 0);

		*winner = (dead & WINDOW_DEAD) | (*winner & ~dead);
		*best = (vec16)((mask16)*best & ~(mask16)(*best < 0));
	}
}

/* Distribute the pooled gradient to the four. */
INLINE void window_backward(const vec16 *dy, const mask16 *winner, vec16 *y, int row)
{
	y[0] = (vec16)((mask16)*dy & (mask16)(*winner == 0));
	y[1] = (vec16)((mask16)*dy & (mask16)(*winner == 1));
	y[row] = (vec16)((mask16)*dy & (mask16)(*winner == 2));
	y[row + 1] = (vec16)((mask16)*dy & (mask16)(*winner == 3));
}

INLINE void winner_load(mask16 *to, const uint8_t *from)
{
	*to = __builtin_convertvector(*(const byte16 *)from, mask16);
}

INLINE void winner_store(uint8_t *to, const mask16 *from)
{
	*(byte16 *)to = __builtin_convertvector(*from, byte16);
}

#endif
