/*
 * Counts durations so that any percentile can be computed later, in constant memory: Gil Tene's
 * HdrHistogram (hdrhistogram.org), log-linear with three significant digits. Up to 2047 µs each
 * value has its own slot; above, each power of two has 1024 slots, so that the error of a value is
 * below 1/1024.
 */
#ifndef MLT_LOAD_HISTOGRAM_H
#define MLT_LOAD_HISTOGRAM_H

#include "base/base.h"

#define HISTOGRAM_MAX   3600000000u        /* µs: one hour; longer ones count as this */
#define HISTOGRAM_SLOTS (2048 + 21 * 1024) /* 22 bits above the lowest 10 of HISTOGRAM_MAX */

struct histogram {
	uint64_t count, least, most; /* least and most are exact; 0 if count is 0 */
	double sum;
	uint64_t slots[HISTOGRAM_SLOTS];
};

/* Make an empty one, to free(). */
struct histogram *histogram_new(void);

void histogram_clear(struct histogram *h);

/* Count a duration in µs. */
void histogram_record(struct histogram *h, uint64_t us);

/* Add the counts of another one. */
void histogram_add(struct histogram *h, const struct histogram *more);

/*
 * The smallest duration in µs that at least p per cent of those counted do not exceed, as the upper
 * end of its slot.
 *
 *   p   0 to 100
 *
 * Returns 0 of an empty histogram.
 */
uint64_t histogram_percentile(const struct histogram *h, double p);

/* 0 of an empty histogram. */
double histogram_mean(const struct histogram *h);

#endif
