/*
 * Convolutions of 5x5 kernels, stride 1, padding 2, with 4.8 times fewer multiplications:
 * Winograd's F(4x4, 5x5) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
 * 2016). The image is cut into tiles of 4x4 outputs; a tile's 8x8 inputs and the kernel are
 * transformed to 64 points, where the convolution is a product at each point, summed over channels:
 *
 *   forward    V = B'xB   U = GwG'   M = V U   y = A'MA
 *   backward   dM = A dy A'   dV = dM U'   dx = B dV B'   dU = V' dM   dw = G' dU G
 *
 * (' transposes; backward is forward's exact adjoint, tile by tile.) The products are matrix
 * products [tiles][c] x [c][k] for each of the 64 points, which is the caller's part; here are the
 * transforms. The points are 0, 1, -1, 2, -2, 1/2, -1/2 and infinity: in single precision that
 * costs about one of the seven digits.
 */
#ifndef MLT_BACKEND_WINOGRAD_H
#define MLT_BACKEND_WINOGRAD_H

#include <stddef.h>

#define WINOGRAD_POINTS 64

/*
 * Sizes. Activations are [n][channels/16][h][w][16], so c and k are multiples of 16; weights are
 * [5][5][c][k].
 */
struct winograd {
	int n, c, k, h, w;
	int tiles_down, tiles_across;
	size_t tiles;             /* n * tiles_down * tiles_across: rows of V and M */
	size_t v_stride, m_stride; /* floats from a point's matrix to the next, in V and M */
};

/* Fill in sizes: is such a convolution possible this way? The rest is set then. */
int winograd_fits(
	struct winograd *g, int n, int c, int k, int h, int w, int size, int stride, int pad);

/* Floats in V and dV, in M and dM, in U and dU. */
size_t winograd_v(const struct winograd *g);
size_t winograd_m(const struct winograd *g);
size_t winograd_u(const struct winograd *g);

/* V [64][tiles][c] of x; U [64][c][k] of w. */
void winograd_input(const struct winograd *g, const float *x, float *v);
void winograd_weights(const struct winograd *g, const float *w, float *u);

/* y = A'MA + bias, then max(y, 0) if relu. */
void winograd_output(
	const struct winograd *g, const float *m, const float *bias, int relu, float *y);

/*
 * dM of dy, and the bias's gradient.
 *
 *   db        [k]
 *   partial   [threads][k], overwritten: each thread's sums
 */
void winograd_output_back(const struct winograd *g, const float *dy, float *dm, float *db,
	float *partial, int threads);

/* dx of dV; dw of dU. */
void winograd_input_back(const struct winograd *g, const float *dv, float *dx);
void winograd_weights_back(const struct winograd *g, const float *du, float *dw);

#endif
