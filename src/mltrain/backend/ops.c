#include "backend/ops.h"

#include <math.h>

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

/* Index of element [a][b][c][d] of an array [..][nb][nc][nd]. */
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

/* Compute one output: the sum over channels and the part of the kernel within the image. */
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
					y[y_at(d, n, k, p, q)] =
						conv_output(d, x, w, b ? b[k] : 0, n, k, p, q);
}

/* Find the output to which a kernel position and an input position contribute; -1: none. */
static int output_of(int in, int at_kernel, int stride, int pad, int limit)
{
	int out = in + pad - at_kernel;

	return out < 0 || out % stride || out / stride >= limit ? -1 : out / stride;
}

static float conv_input_grad(
	const struct op_conv *d, const float *dy, const float *w, int n, int c, int i, int j)
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
					dx[x_at(d, n, c, i, j)] =
						conv_input_grad(d, dy, w, n, c, i, j);
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

void op_conv_backward_weights(
	const struct op_conv *d, const float *x, const float *dy, float *dw, float *db)
{
	for (int k = 0; k < d->k; k++) {
		double sum = 0;

		for (int c = 0; c < d->c; c++)
			for (int r = 0; r < d->r; r++)
				for (int s = 0; s < d->r; s++)
					dw[w_at(d, k, c, r, s)] =
						conv_weight_grad(d, x, dy, k, c, r, s);
		for (int n = 0; n < d->n; n++)
			for (int i = 0; i < d->p * d->q; i++)
				sum += dy[(n * d->k + k) * d->p * d->q + i];
		if (db)
			db[k] = (float)sum;
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

/* Index of the first element of window (i, j) of plane m. */
static size_t corner(const struct op_pool *d, int m, int i, int j)
{
	return at(0, 1, m, d->h, i * d->stride, d->w, j * d->stride);
}

static int best_of(const struct op_pool *d, const float *window)
{
	float best = window[0];
	int place = 0;

	for (int r = 0; r < d->size; r++)
		for (int s = 0; s < d->size; s++)
			if (window[r * d->w + s] > best) {
				best = window[r * d->w + s];
				place = r * d->size + s;
			}
	return place;
}

void op_pool_forward(const struct op_pool *d, const float *x, float *y, uint8_t *winner)
{
	for (int m = 0; m < d->n * d->c; m++)
		for (int i = 0; i < d->p; i++)
			for (int j = 0; j < d->q; j++) {
				const float *window = x + corner(d, m, i, j);
				size_t out = at(0, 1, m, d->p, i, d->q, j);
				int best = best_of(d, window);

				y[out] = window[best / d->size * d->w + best % d->size];
				winner[out] = (uint8_t)best;
			}
}

static void clear_input(const struct op_pool *d, float *dx)
{
	memset(dx, 0, sizeof(float) * at(d->n * d->c, d->h, 0, d->w, 0, 1, 0));
}

void op_pool_backward(const struct op_pool *d, const float *dy, const uint8_t *winner, float *dx)
{
	clear_input(d, dx);
	for (int m = 0; m < d->n * d->c; m++)
		for (int i = 0; i < d->p; i++)
			for (int j = 0; j < d->q; j++) {
				size_t out = at(0, 1, m, d->p, i, d->q, j);
				int r = winner[out] / d->size, s = winner[out] % d->size;

				dx[corner(d, m, i, j) + (size_t)(r * d->w + s)] += dy[out];
			}
}

void op_avgpool_forward(const struct op_pool *d, const float *x, float *y)
{
	for (int m = 0; m < d->n * d->c; m++)
		for (int i = 0; i < d->p; i++)
			for (int j = 0; j < d->q; j++) {
				const float *window = x + corner(d, m, i, j);
				double sum = 0;

				for (int r = 0; r < d->size; r++)
					for (int s = 0; s < d->size; s++)
						sum += window[r * d->w + s];
				y[at(0, 1, m, d->p, i, d->q, j)] =
					(float)(sum / (d->size * d->size));
			}
}

void op_avgpool_backward(const struct op_pool *d, const float *dy, float *dx)
{
	clear_input(d, dx);
	for (int m = 0; m < d->n * d->c; m++)
		for (int i = 0; i < d->p; i++)
			for (int j = 0; j < d->q; j++) {
				float *window = dx + corner(d, m, i, j);
				float part = dy[at(0, 1, m, d->p, i, d->q, j)] /
					(float)(d->size * d->size);

				for (int r = 0; r < d->size; r++)
					for (int s = 0; s < d->size; s++)
						window[r * d->w + s] += part;
			}
}

void op_globalpool_forward(size_t planes, size_t pixels, const float *x, float *y)
{
	for (size_t m = 0; m < planes; m++) {
		double sum = 0;

		for (size_t i = 0; i < pixels; i++)
			sum += x[m * pixels + i];
		y[m] = (float)(sum / (double)pixels);
	}
}

void op_globalpool_backward(size_t planes, size_t pixels, const float *dy, float *dx)
{
	for (size_t m = 0; m < planes; m++)
		for (size_t i = 0; i < pixels; i++)
			dx[m * pixels + i] = dy[m] / (float)pixels;
}

void op_norm_sums(const struct op_norm *d, const float *x, double *moments)
{
	memset(moments, 0, 2 * (size_t)d->c * sizeof(*moments));
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++)
			for (int i = 0; i < d->pixels; i++) {
				double v = x[at(0, 1, n, d->c, c, d->pixels, i)];

				moments[c] += v;
				moments[d->c + c] += v * v;
			}
}

void op_norm_statistics(int c, double count, const double *moments, float *mean, float *var)
{
	for (int k = 0; k < c; k++) {
		double m = moments[k] / count, v = moments[c + k] / count - m * m;

		mean[k] = (float)m;
		var[k] = v < 0 ? 0 : (float)v; /* < 0 by rounding; NaN stays NaN */
	}
}

void op_norm_forward(const struct op_norm *d, const float *x, const float *mean, const float *var,
	const float *gamma, const float *beta, float *y)
{
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++) {
			double scale = gamma[c] / sqrt((double)var[c] + d->epsilon);
			size_t first = at(0, 1, n, d->c, c, d->pixels, 0);

			for (int i = 0; i < d->pixels; i++)
				y[first + (size_t)i] =
					(float)(scale * ((double)x[first + (size_t)i] - mean[c]) +
						beta[c]);
		}
}

void op_norm_grads(const struct op_norm *d, const float *x, const float *mean, const float *var,
	const float *dy, double *sums)
{
	memset(sums, 0, 2 * (size_t)d->c * sizeof(*sums));
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++) {
			double scale = 1 / sqrt((double)var[c] + d->epsilon);

			for (int i = 0; i < d->pixels; i++) {
				size_t k = at(0, 1, n, d->c, c, d->pixels, i);

				sums[c] += dy[k];
				sums[d->c + c] += dy[k] * ((double)x[k] - mean[c]) * scale;
			}
		}
}

/* With u = (x - mean) / sqrt(var + epsilon): dx = gamma / sqrt(var + epsilon) * (dy - mean of dy -
 * u * mean of dy * u); Ioffe and Szegedy, section 3, put together. */
void op_norm_backward(const struct op_norm *d, double count, const float *x, const float *mean,
	const float *var, const float *gamma, const double *sums, const float *dy, float *dx)
{
	for (int n = 0; n < d->n; n++)
		for (int c = 0; c < d->c; c++) {
			double scale = 1 / sqrt((double)var[c] + d->epsilon);

			for (int i = 0; i < d->pixels; i++) {
				size_t k = at(0, 1, n, d->c, c, d->pixels, i);
				double u = ((double)x[k] - mean[c]) * scale;

				dx[k] = (float)(gamma[c] * scale *
					(dy[k] - (sums[c] + u * sums[d->c + c]) / count));
			}
		}
}

void op_norm_track(int c, double count, float momentum, const float *mean, const float *var,
	float *running_mean, float *running_var)
{
	double unbiased = count > 1 ? count / (count - 1) : 1;

	for (int k = 0; k < c; k++) {
		running_mean[k] = (1 - momentum) * running_mean[k] + momentum * mean[k];
		running_var[k] =
			(1 - momentum) * running_var[k] + momentum * (float)(unbiased * var[k]);
	}
}

void op_add(size_t n, const float *a, const float *b, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = a[i] + b[i];
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
	int n, int classes, const float *x, const uint16_t *labels, float *dx, int *wrong)
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

double op_smooth_loss(
	int n, int classes, float share, const float *x, const uint16_t *labels, float *dx)
{
	double each = (double)share / classes, added = 0;

	for (int i = 0; i < n; i++) {
		const float *row = x + i * classes;

		for (int k = 0; k < classes; k++) {
			double of_label = k == labels[i] ? share : 0;

			added += (of_label - each) * row[k];
			dx[i * classes + k] += (float)((of_label - each) / n);
		}
	}
	return added / n;
}
