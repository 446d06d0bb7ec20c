#include "metrics/tfsummary.h"

#include <math.h>
#include <string.h>

/* Summary.value = 1; of a Value: */
enum {
	VALUE_TAG = 1,
	VALUE_SCALAR = 2,
	VALUE_IMAGE = 4,
	VALUE_HISTOGRAM = 5,
	VALUE_TENSOR = 8,
	VALUE_METADATA = 9,
};

static size_t begin(struct wire *summary, const char *tag)
{
	size_t value = wire_begin(summary, 1);

	wire_text(summary, VALUE_TAG, tag);
	return value;
}

void tfsummary_scalar(struct wire *summary, const char *tag, double v)
{
	size_t value;

	if (!isfinite(v) || v < 0)
		return;
	value = begin(summary, tag);
	wire_float(summary, VALUE_SCALAR, (float)v);
	wire_end(summary, value);
}

/*
 * As tensorboard/plugins/text/summary.py: metadata { plugin_data = 1 { plugin_name = 1 } }, tensor
 * { dtype = 1: DT_STRING, tensor_shape = 2: a scalar's, string_val = 8 }.
 */
void tfsummary_text(struct wire *summary, const char *tag, const char *text)
{
	size_t value = begin(summary, tag), tensor, metadata, plugin;

	tensor = wire_begin(summary, VALUE_TENSOR);
	wire_number(summary, 1, 7);
	wire_text(summary, 2, "");
	wire_text(summary, 8, text);
	wire_end(summary, tensor);
	metadata = wire_begin(summary, VALUE_METADATA);
	plugin = wire_begin(summary, 1);
	wire_text(summary, 1, "text");
	wire_end(summary, plugin);
	wire_end(summary, metadata);
	wire_end(summary, value);
}

/* What is counted for a HistogramProto. */
struct counts {
	double min, max, sum, squares;
	double bucket[TFSUMMARY_BUCKETS];
	size_t n;
};

static struct counts count(const float *v, size_t n)
{
	struct counts c = { .min = INFINITY, .max = -INFINITY };
	double width;

	for (size_t i = 0; i < n; i++) {
		double x = (double)v[i];

		if (!isfinite(x))
			continue;
		c.min = fmin(c.min, x);
		c.max = fmax(c.max, x);
		c.sum += x;
		c.squares += x * x;
		c.n++;
	}
	width = (c.max - c.min) / TFSUMMARY_BUCKETS;
	for (size_t i = 0; c.n && i < n; i++)
		if (isfinite(v[i])) {
			int at = width > 0 ? (int)(((double)v[i] - c.min) / width) : 0;

			c.bucket[at < TFSUMMARY_BUCKETS ? at : TFSUMMARY_BUCKETS - 1]++;
		}
	return c;
}

/* HistogramProto: min = 1, max, num, sum, sum_squares, bucket_limit (the upper ends) = 6, bucket.
 */
void tfsummary_histogram(struct wire *summary, const char *tag, const float *v, size_t n)
{
	const struct counts c = count(v, n);
	size_t value, histogram;

	if (!c.n)
		return;
	value = begin(summary, tag);
	histogram = wire_begin(summary, VALUE_HISTOGRAM);
	wire_double(summary, 1, c.min);
	wire_double(summary, 2, c.max);
	wire_double(summary, 3, (double)c.n);
	wire_double(summary, 4, c.sum);
	wire_double(summary, 5, c.squares);
	for (int i = 1; i <= TFSUMMARY_BUCKETS; i++)
		wire_double(summary, 6, c.min + (c.max - c.min) * i / TFSUMMARY_BUCKETS);
	for (int i = 0; i < TFSUMMARY_BUCKETS; i++)
		wire_double(summary, 7, c.bucket[i]);
	wire_end(summary, histogram);
	wire_end(summary, value);
}

/* Summary.Image: height = 1, width, colorspace (the number of channels), encoded_image_string. */
void tfsummary_picture(struct wire *summary, const char *tag, const uint8_t *png, size_t len,
	uint32_t channels, uint32_t height, uint32_t width)
{
	size_t value = begin(summary, tag), image = wire_begin(summary, VALUE_IMAGE);
	void *bytes;

	wire_number(summary, 1, height);
	wire_number(summary, 2, width);
	wire_number(summary, 3, channels);
	bytes = wire_bytes(summary, 4, len);
	if (bytes)
		memcpy(bytes, png, len);
	wire_end(summary, image);
	wire_end(summary, value);
}
