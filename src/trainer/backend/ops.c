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

void op_conv_forward(const struct op_conv *d, const float *x, const float *w, const float *b, float *y)
{
	for (int n = 0; n < d->n; n++)
		for (int k = 0; k < d->k; k++)
			for (int p = 0; p < d->p; p++)
				for (int q = 0; q < d->q; q++) {
					int r0, r1, s0, s1;
					int i = window(p, d->stride, d->pad, d->h, d->r, &r0, &r1);
					int j = window(q, d->stride, d->pad, d->w, d->r, &s0, &s1);
					double sum = b[k];

					for (int c = 0; c < d->c; c++)
						for (int r = r0; r < r1; r++)
							for (int s = s0; s < s1; s++)
								sum += (double)x[((n * d->c + c) * d->h + i + r) * d->w + j + s] *
								       w[((k * d->c + c) * d->r + r) * d->r + s];
					y[((n * d->k + k) * d->p + p) * d->q + q] = (float)sum;
				}
}

/* Input position (i, j) met output (p, q) through kernel position r = i + pad - p * stride. */
void op_conv_backward_data(const struct op_conv *d, const float *dy, const float *w, float *dx)
{
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++)
			for (int i = 0; i < d->h; i++)
				for (int j = 0; j < d->w; j++) {
					double sum = 0;

					for (int r = 0; r < d->r; r++)
						for (int s = 0; s < d->r; s++) {
							int p = i + d->pad - r, q = j + d->pad - s;

							if (p < 0 || q < 0 || p % d->stride || q % d->stride)
								continue;
							p /= d->stride;
							q /= d->stride;
							if (p >= d->p || q >= d->q)
								continue;
							for (int k = 0; k < d->k; k++)
								sum += (double)dy[((n * d->k + k) * d->p + p) * d->q + q] *
								       w[((k * d->c + c) * d->r + r) * d->r + s];
						}
					dx[((n * d->c + c) * d->h + i) * d->w + j] = (float)sum;
				}
}

static double conv_weight_grad(const struct op_conv *d, const float *x, const float *dy, int k, int c,
	int r, int s)
{
	double sum = 0;

	for (int n = 0; n < d->n; n++)
		for (int p = 0; p < d->p; p++) {
			int i = p * d->stride - d->pad + r;

			if (i < 0 || i >= d->h)
				continue;
			for (int q = 0; q < d->q; q++) {
				int j = q * d->stride - d->pad + s;

				if (j >= 0 && j < d->w)
					sum += (double)x[((n * d->c + c) * d->h + i) * d->w + j] *
					       dy[((n * d->k + k) * d->p + p) * d->q + q];
			}
		}
	return sum;
}

void op_conv_backward_weights(const struct op_conv *d, const float *x, const float *dy, float *dw,
	float *db)
{
	for (int k = 0; k < d->k; k++) {
		double sum = 0;

		for (int c = 0; c < d->c; c++)
			for (int r = 0; r < d->r; r++)
				for (int s = 0; s < d->r; s++)
					dw[((k * d->c + c) * d->r + r) * d->r + s] =
						(float)conv_weight_grad(d, x, dy, k, c, r, s);
		for (int n = 0; n < d->n; n++)
			for (int i = 0; i < d->p * d->q; i++)
				sum += dy[(n * d->k + k) * d->p * d->q + i];
		db[k] = (float)sum;
	}
}

void op_dense_forward(const struct op_dense *d, const float *x, const float *w, const float *b, float *y)
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
				const float *corner = x + (m * d->h + i * d->size) * d->w + j * d->size;
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

double op_softmax_loss(int n, int classes, const float *x, const uint8_t *labels, float *dx, int *wrong)
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
