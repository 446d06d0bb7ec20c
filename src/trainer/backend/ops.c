#include "trainer/backend/ops.h"

#include <math.h>
#include <string.h>

/*
 * Kernel positions s for which the input position at = out * stride - pad + s lies in 0..limit-1
 * are those in [*from, *to).
 */
static int window(int out, int stride, int pad, int limit, int size, int *from, int *to)
{
	int at = out * stride - pad;

	*from = at < 0 ? -at : 0;
	*to = at + size > limit ? limit - at : size;
	return at;
}

/* Where element [a][b][c][d] of an array [..][nb][nc][nd] lies. */
static size_t at(int a, int nb, int b, int nc, int c, int nd, int d)
{
	return (((size_t)a * (size_t)nb + (size_t)b) * (size_t)nc + (size_t)c) * (size_t)nd +
		(size_t)d;
}

static size_t x_at(const struct op_conv *d, int n, int c, int i, int j)
{
	return at(n, d->c, c, d->h, i, d->w, j);
}

static size_t w_at(const struct op_conv *d, int k, int c, int r, int s)
{
	return at(k, d->c, c, d->r, r, d->r, s);
}

static size_t y_at(const struct op_conv *d, int n, int k, int p, int q)
{
	return at(n, d->k, k, d->p, p, d->q, q);
}

/* One output: the sum over channels and the part of the kernel that lies within the image. */
static float conv_output(const struct op_conv *d, const float *x, const float *w, float bias, int n,
	int k, int p, int q)
{
	int r0, r1, s0, s1;
	int i = window(p, d->stride, d->pad, d->h, d->r, &r0, &r1);
	int j = window(q, d->stride, d->pad, d->w, d->r, &s0, &s1);
	double sum = bias;

	for (int c = 0; c < d->c; c++)
		for (int r = r0; r < r1; r++)
			for (int s = s0; s < s1; s++)
				sum += (double)x[x_at(d, n, c, i + r, j + s)] *
					w[w_at(d, k, c, r, s)];
	return (float)sum;
}

void op_conv_forward(
	const struct op_conv *d, const float *x, const float *w, const float *b, float *y)
{
	for (int n = 0; n < d->n; n++)
		for (int k = 0; k < d->k; k++)
			for (int p = 0; p < d->p; p++)
				for (int q = 0; q < d->q; q++)
					y[y_at(d, n, k, p, q)] = conv_output(
						d, x, w, b[k], n, k, p, q);
}

/* Which output did a kernel position meet with an input position? -1 when none. */
static int output_of(int in, int at_kernel, int stride, int pad, int limit)
{
	int out = in + pad - at_kernel;

	return out < 0 || out % stride || out / stride >= limit ? -1 : out / stride;
}

static float conv_input_grad(const struct op_conv *d, const float *dy, const float *w, int n, int c,
	int i, int j)
{
	double sum = 0;

	for (int r = 0; r < d->r; r++)
		for (int s = 0; s < d->r; s++) {
			int p = output_of(i, r, d->stride, d->pad, d->p);
			int q = output_of(j, s, d->stride, d->pad, d->q);

			for (int k = 0; p >= 0 && q >= 0 && k < d->k; k++)
				sum += (double)dy[y_at(d, n, k, p, q)] * w[w_at(d, k, c, r, s)];
		}
	return (float)sum;
}

void op_conv_backward_data(const struct op_conv *d, const float *dy, const float *w, float *dx)
{
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++)
			for (int i = 0; i < d->h; i++)
				for (int j = 0; j < d->w; j++)
					dx[x_at(d, n, c, i, j)] = conv_input_grad(
						d, dy, w, n, c, i, j);
}

static float conv_weight_grad(
	const struct op_conv *d, const float *x, const float *dy, int k, int c, int r, int s)
{
	double sum = 0;

	for (int n = 0; n < d->n; n++)
		for (int p = 0; p < d->p; p++)
			for (int q = 0; q < d->q; q++) {
				int i = p * d->stride - d->pad + r, j = q * d->stride - d->pad + s;

				if (i >= 0 && i < d->h && j >= 0 && j < d->w)
					sum += (double)x[x_at(d, n, c, i, j)] *
						dy[y_at(d, n, k, p, q)];
			}
	return (float)sum;
}

void op_conv_backward_weights(const struct op_conv *d, const float *x, const float *dy, float *dw,
	float *db)
{
	for (int k = 0; k < d->k; k++) {
		double sum = 0;

		for (int c = 0; c < d->c; c++)
			for (int r = 0; r < d->r; r++)
				for (int s = 0; s < d->r; s++)
					dw[w_at(d, k, c, r, s)] = conv_weight_grad(
						d, x, dy, k, c, r, s);
		for (int n = 0; n < d->n; n++)
			for (int i = 0; i < d->p * d->q; i++)
				sum += dy[(n * d->k + k) * d->p * d->q + i];
		db[k] = (float)sum;
	}
}

void op_dense_forward(
	const struct op_dense *d, const float *x, const float *w, const float *b, float *y)
{
	for (int n = 0; n < d->n; n++)
		for (int k = 0; k < d->k; k++) {
			double sum = b[k];

			for (int c = 0; c < d->c; c++)
				sum += (double)x[n * d->c + c] * w[k * d->c + c];
			y[n * d->k + k] = (float)sum;
		}
}

void op_dense_backward_data(const struct op_dense *d, const float *dy, const float *w, float *dx)
{
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++) {
			double sum = 0;

			for (int k = 0; k < d->k; k++)
				sum += (double)dy[n * d->k + k] * w[k * d->c + c];
			dx[n * d->c + c] = (float)sum;
		}
}

void op_dense_backward_weights(const struct op_dense *d, const float *x, const float *dy, float *dw,
	float *db)
{
	for (int k = 0; k < d->k; k++) {
		double total = 0;

		for (int c = 0; c < d->c; c++) {
			double sum = 0;

			for (int n = 0; n < d->n; n++)
				sum += (double)dy[n * d->k + k] * x[n * d->c + c];
			dw[k * d->c + c] = (float)sum;
		}
		for (int n = 0; n < d->n; n++)
			total += dy[n * d->k + k];
		db[k] = (float)total;
	}
}

void op_relu_forward(size_t n, const float *x, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] < 0 ? 0 : x[i];
}

void op_relu_backward(size_t n, const float *y, const float *dy, float *dx)
{
	for (size_t i = 0; i < n; i++)
		dx[i] = y[i] > 0 ? dy[i] : 0;
}

void op_pool_forward(const struct op_pool *d, const float *x, float *y, uint8_t *winner)
{
	int p = d->h / d->size, q = d->w / d->size;

	for (int m = 0; m < d->n * d->c; m++)
		for (int i = 0; i < p; i++)
			for (int j = 0; j < q; j++) {
				const float *corner = x + (m * d->h + i * d->size) * d->w +
					j * d->size;
				float best = corner[0];
				int at = 0;

				for (int r = 0; r < d->size; r++)
					for (int s = 0; s < d->size; s++)
						if (corner[r * d->w + s] > best) {
							best = corner[r * d->w + s];
							at = r * d->size + s;
						}
				y[(m * p + i) * q + j] = best;
				winner[(m * p + i) * q + j] = (uint8_t)at;
			}
}

void op_pool_backward(const struct op_pool *d, const float *dy, const uint8_t *winner, float *dx)
{
	int p = d->h / d->size, q = d->w / d->size;

	memset(dx, 0, sizeof(float) * (size_t)(d->n * d->c) * (size_t)(d->h * d->w));
	for (int m = 0; m < d->n * d->c; m++)
		for (int i = 0; i < p; i++)
			for (int j = 0; j < q; j++) {
				int at = (m * p + i) * q + j;
				int r = winner[at] / d->size, s = winner[at] % d->size;

				dx[(m * d->h + i * d->size + r) * d->w + j * d->size + s] = dy[at];
			}
}

void op_dropout(size_t n, const float *x, const float *mask, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * mask[i];
}

int op_argmax(int n, const float *x)
{
	int best = 0;

	for (int i = 0; i < n; i++) {
		if (isnan(x[i]))
			return -1;
		if (x[i] > x[best])
			best = i;
	}
	return best;
}

double op_softmax_loss(
	int n, int classes, const float *x, const uint8_t *labels, float *dx, int *wrong)
{
	double loss = 0;

	*wrong = 0;
	for (int i = 0; i < n; i++) {
		const float *row = x + i * classes;
		int best = op_argmax(classes, row);
		double top = row[best < 0 ? 0 : best], sum = 0;

		*wrong += best != labels[i];
		for (int k = 0; k < classes; k++)
			sum += exp(row[k] - top);
		loss += log(sum) + top - row[labels[i]];
		for (int k = 0; dx && k < classes; k++)
			dx[i * classes + k] =
				(float)((exp(row[k] - top) / sum - (k == labels[i])) / n);
	}
	return loss / n;
}

double op_sgd(size_t n, float *p, float *v, const float *g, float lr, float momentum, float l2)
{
	double norm2 = 0;

	for (size_t i = 0; i < n; i++) {
		norm2 += (double)p[i] * p[i];
		v[i] = momentum * v[i] + (g[i] + l2 * p[i]);
		p[i] -= lr * v[i];
	}
	return norm2;
}
