/*
 * Values of a TensorBoard summary (TensorFlow's core/framework/summary.proto), one after another in
 * one message: scalars, text, histograms, pictures.
 */
#ifndef MLT_METRICS_TFSUMMARY_H
#define MLT_METRICS_TFSUMMARY_H

#include "model/wire.h"

#include <stddef.h>
#include <stdint.h>

#define TFSUMMARY_BUCKETS 30 /* of a histogram, as TensorBoard's own writer has them */

/* Values that are no numbers, or negative and thus not known yet, are left out. */
void tfsummary_scalar(struct wire *summary, const char *tag, double v);

/* Text in Markdown, UTF-8. */
void tfsummary_text(struct wire *summary, const char *tag, const char *text);

/* The distribution of n floats, in buckets of equal width from the lowest to the highest. */
void tfsummary_histogram(struct wire *summary, const char *tag, const float *v, size_t n);

/* A PNG of 1 or 3 channels; the tag, UTF-8, is its title. */
void tfsummary_picture(struct wire *summary, const char *tag, const uint8_t *png, size_t len,
	uint32_t channels, uint32_t height, uint32_t width);

#endif
