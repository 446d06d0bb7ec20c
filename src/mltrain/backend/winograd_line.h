/*
 * The transforms of winograd.h in one dimension, of a vector of channels at once; two dimensions
 * are lines down, then lines across. Arrays are read and written every so many elements (ds, ts,
 * …). Files that include this are compiled for each size of kernel, WINOGRAD_KERNEL:
 *
 *   line_input         t = B'd   of inputs, to points
 *   line_input_back    d = Bt
 *   line_output        y = A'm   of points, to outputs
 *   line_output_back   m = Ay
 *   line_weights       u = Gw    of a kernel, to points
 *   line_weights_back  w = G'u
 */
#ifndef MLT_BACKEND_WINOGRAD_LINE_H
#define MLT_BACKEND_WINOGRAD_LINE_H

#include "backend/winograd.h"
#include "tensor/wide.h"

#define KERNEL WINOGRAD_KERNEL
#define PAD    (KERNEL / 2)
#define TILE   WINOGRAD_TILE
#define INPUT  (TILE + KERNEL - 1) /* inputs of a tile, and points */
#define POINTS (INPUT * INPUT)

#if KERNEL == 3

/*
 * Lavin and Gray, 2016, section 4.2: 4 outputs and a kernel of 3 at the points 0, 1, -1, 2, -2 and
 * infinity.
 */
INLINE void line_input(const vecf *d, int ds, vecf *t, int ts)
{
	vecf d1 = d[ds], d2 = d[2 * ds], d3 = d[3 * ds], d4 = d[4 * ds], e, o;

	t[0] = d[0] * 4.0f - d2 * 5.0f + d4;
	e = d4 - d2 * 4.0f;
	o = d3 - d1 * 4.0f;
	t[ts] = e + o;
	t[2 * ts] = e - o;
	e = d4 - d2;
	o = (d3 - d1) * 2.0f;
	t[3 * ts] = e + o;
	t[4 * ts] = e - o;
	t[5 * ts] = d1 * 4.0f - d3 * 5.0f + d[5 * ds];
}

INLINE void line_input_back(const vecf *t, int ts, vecf *d, int ds)
{
	vecf t0 = t[0], t5 = t[5 * ts];
	vecf e1 = t[ts] + t[2 * ts], o1 = t[ts] - t[2 * ts];
	vecf e2 = t[3 * ts] + t[4 * ts], o2 = t[3 * ts] - t[4 * ts];

	d[0] = t0 * 4.0f;
	d[ds] = (t5 - o1) * 4.0f - o2 * 2.0f;
	d[2 * ds] = -(t0 * 5.0f + e1 * 4.0f + e2);
	d[3 * ds] = o1 + o2 * 2.0f - t5 * 5.0f;
	d[4 * ds] = t0 + e1 + e2;
	d[5 * ds] = t5;
}

INLINE void line_output(const vecf *m, int ms, vecf *y, int ys)
{
	vecf e1 = m[ms] + m[2 * ms], o1 = m[ms] - m[2 * ms];
	vecf e2 = m[3 * ms] + m[4 * ms], o2 = m[3 * ms] - m[4 * ms];

	y[0] = m[0] + e1 + e2;
	y[ys] = o1 + o2 * 2.0f;
	y[2 * ys] = e1 + e2 * 4.0f;
	y[3 * ys] = o1 + o2 * 8.0f + m[5 * ms];
}

INLINE void line_output_back(const vecf *y, int ys, vecf *m, int ms)
{
	vecf y0 = y[0], y1 = y[ys], y2 = y[2 * ys], y3 = y[3 * ys], e, o;

	m[0] = y0;
	e = y0 + y2;
	o = y1 + y3;
	m[ms] = e + o;
	m[2 * ms] = e - o;
	e = y0 + y2 * 4.0f;
	o = y1 * 2.0f + y3 * 8.0f;
	m[3 * ms] = e + o;
	m[4 * ms] = e - o;
	m[5 * ms] = y3;
}

#define S1 (-1.0f / 6) /* scales of the points 1 and -1, */
#define S2 (1.0f / 24) /* 2 and -2 */

INLINE void line_weights(const vecf *w, int ws, vecf *u, int us)
{
	vecf w0 = w[0], w1 = w[ws], w2 = w[2 * ws], e, o;

	u[0] = w0 * 0.25f;
	e = (w0 + w2) * S1;
	o = w1 * S1;
	u[us] = e + o;
	u[2 * us] = e - o;
	e = (w0 + w2 * 4.0f) * S2;
	o = w1 * (2 * S2);
	u[3 * us] = e + o;
	u[4 * us] = e - o;
	u[5 * us] = w2;
}

INLINE void line_weights_back(const vecf *u, int us, vecf *w, int ws)
{
	vecf e1 = (u[us] + u[2 * us]) * S1, o1 = (u[us] - u[2 * us]) * S1;
	vecf e2 = (u[3 * us] + u[4 * us]) * S2, o2 = (u[3 * us] - u[4 * us]) * S2;

	w[0] = u[0] * 0.25f + e1 + e2;
	w[ws] = o1 + o2 * 2.0f;
	w[2 * ws] = e1 + e2 * 4.0f + u[5 * us];
}

#else

/*
 * Lavin and Gray, 2016, section 4, for 4 outputs and a kernel of 5 at the points 0, 1, -1, 2, -2,
 * 1/2, -1/2 and infinity.
 */
INLINE void line_input(const vecf *d, int ds, vecf *t, int ts)
{
	vecf d0 = d[0], d1 = d[ds], d2 = d[2 * ds], d3 = d[3 * ds], d4 = d[4 * ds], d5 = d[5 * ds],
	     d6 = d[6 * ds], d7 = d[7 * ds], e, o;

	t[0] = d0 - d6 + (d4 - d2) * 5.25f;
	e = d2 + d6 - d4 * 4.25f;
	o = d1 + d5 - d3 * 4.25f;
	t[ts] = e + o;
	t[2 * ts] = e - o;
	e = d6 + d2 * 0.25f - d4 * 1.25f;
	o = d1 * 0.5f - d3 * 2.5f + d5 * 2.0f;
	t[3 * ts] = e + o;
	t[4 * ts] = e - o;
	e = d6 + d2 * 4.0f - d4 * 5.0f;
	o = d1 * 2.0f - d3 * 2.5f + d5 * 0.5f;
	t[5 * ts] = e + o;
	t[6 * ts] = e - o;
	t[7 * ts] = d7 - d1 + (d3 - d5) * 5.25f;
}

INLINE void line_input_back(const vecf *t, int ts, vecf *d, int ds)
{
	vecf t0 = t[0], t7 = t[7 * ts];
	vecf e1 = t[ts] + t[2 * ts], o1 = t[ts] - t[2 * ts];
	vecf e2 = t[3 * ts] + t[4 * ts], o2 = t[3 * ts] - t[4 * ts];
	vecf e3 = t[5 * ts] + t[6 * ts], o3 = t[5 * ts] - t[6 * ts];

	d[0] = t0;
	d[ds] = o1 + o2 * 0.5f + o3 * 2.0f - t7;
	d[2 * ds] = e1 + e2 * 0.25f + e3 * 4.0f - t0 * 5.25f;
	d[3 * ds] = t7 * 5.25f - o1 * 4.25f - (o2 + o3) * 2.5f;
	d[4 * ds] = t0 * 5.25f - e1 * 4.25f - e2 * 1.25f - e3 * 5.0f;
	d[5 * ds] = o1 + o2 * 2.0f + o3 * 0.5f - t7 * 5.25f;
	d[6 * ds] = e1 + e2 + e3 - t0;
	d[7 * ds] = t7;
}

INLINE void line_output(const vecf *m, int ms, vecf *y, int ys)
{
	vecf e1 = m[ms] + m[2 * ms], o1 = m[ms] - m[2 * ms];
	vecf e2 = m[3 * ms] + m[4 * ms], o2 = m[3 * ms] - m[4 * ms];
	vecf e3 = m[5 * ms] + m[6 * ms], o3 = m[5 * ms] - m[6 * ms];

	y[0] = m[0] + e1 + e2 + e3;
	y[ys] = o1 + o2 * 2.0f + o3 * 0.5f;
	y[2 * ys] = e1 + e2 * 4.0f + e3 * 0.25f;
	y[3 * ys] = o1 + o2 * 8.0f + o3 * 0.125f + m[7 * ms];
}

INLINE void line_output_back(const vecf *y, int ys, vecf *m, int ms)
{
	vecf y0 = y[0], y1 = y[ys], y2 = y[2 * ys], y3 = y[3 * ys], e, o;

	m[0] = y0;
	e = y0 + y2;
	o = y1 + y3;
	m[ms] = e + o;
	m[2 * ms] = e - o;
	e = y0 + y2 * 4.0f;
	o = y1 * 2.0f + y3 * 8.0f;
	m[3 * ms] = e + o;
	m[4 * ms] = e - o;
	e = y0 + y2 * 0.25f;
	o = y1 * 0.5f + y3 * 0.125f;
	m[5 * ms] = e + o;
	m[6 * ms] = e - o;
	m[7 * ms] = y3;
}

#define S1 (-2.0f / 9)  /* scales of the points 1 and -1, */
#define S2 (1.0f / 90)  /* 2 and -2, */
#define S3 (32.0f / 45) /* 1/2 and -1/2 */

INLINE void line_weights(const vecf *w, int ws, vecf *u, int us)
{
	vecf w0 = w[0], w1 = w[ws], w2 = w[2 * ws], w3 = w[3 * ws], w4 = w[4 * ws], e, o;

	u[0] = w0;
	e = (w0 + w2 + w4) * S1;
	o = (w1 + w3) * S1;
	u[us] = e + o;
	u[2 * us] = e - o;
	e = (w0 + w2 * 4.0f + w4 * 16.0f) * S2;
	o = (w1 * 2.0f + w3 * 8.0f) * S2;
	u[3 * us] = e + o;
	u[4 * us] = e - o;
	e = (w0 + w2 * 0.25f + w4 * 0.0625f) * S3;
	o = (w1 * 0.5f + w3 * 0.125f) * S3;
	u[5 * us] = e + o;
	u[6 * us] = e - o;
	u[7 * us] = w4;
}

INLINE void line_weights_back(const vecf *u, int us, vecf *w, int ws)
{
	vecf e1 = (u[us] + u[2 * us]) * S1, o1 = (u[us] - u[2 * us]) * S1;
	vecf e2 = (u[3 * us] + u[4 * us]) * S2, o2 = (u[3 * us] - u[4 * us]) * S2;
	vecf e3 = (u[5 * us] + u[6 * us]) * S3, o3 = (u[5 * us] - u[6 * us]) * S3;

	w[0] = u[0] + e1 + e2 + e3;
	w[ws] = o1 + o2 * 2.0f + o3 * 0.5f;
	w[2 * ws] = e1 + e2 * 4.0f + e3 * 0.25f;
	w[3 * ws] = o1 + o2 * 8.0f + o3 * 0.125f;
	w[4 * ws] = e1 + e2 * 16.0f + e3 * 0.0625f + u[7 * us];
}

#endif

/*
 * Transforms weights and their gradients: two functions of struct winograd_code, and the backward
 * pass. Compiled for each size of kernel and width of vectors, like winograd.c, by names that say
 * which.
 */

#define WINOGRAD_NAMED(name, kernel, lanes)  name##_##kernel##_##lanes
#define WINOGRAD_NAMED_(name, kernel, lanes) WINOGRAD_NAMED(name, kernel, lanes)
#define WINOGRAD_NAME(name)                  WINOGRAD_NAMED_(name, WINOGRAD_KERNEL, WIDE_LANES)

#define winograd_weights      WINOGRAD_NAME(winograd_weights)
#define winograd_pairs        WINOGRAD_NAME(winograd_pairs)
#define winograd_weights_back WINOGRAD_NAME(winograd_weights_back)

void winograd_weights(const struct winograd *g, const float *w, float *u, float *ut);
void winograd_pairs(const struct winograd *g, const float *u, const float *ut, uint32_t *pairs,
	uint32_t *pairs_t);

/*
 * Compute the gradients of w and of the bias from the sums of the threads.
 *
 *   sums   each thread's dU [threads][points][c][k], then db [threads][k]; the first dU becomes the
 *          sum
 *   db     or NULL
 */
void winograd_weights_back(const struct winograd *g, float *sums, float *dw, float *db);

#endif
