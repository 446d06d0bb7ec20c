/*
 * Lavin and Gray, 2016, section 4.2: 4 outputs and a kernel of 3 at the points 0, 1, -1, 2, -2 and
 * infinity.
 */
#ifndef MLT_BACKEND_WINOGRAD_LINE_3_H
#define MLT_BACKEND_WINOGRAD_LINE_3_H

#include "tensor/wide.h"

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

#endif
