/*
 * Counts durations so that any percentile can be computed later, in constant memory: Gil Tene's
 * HdrHistogram (hdrhistogram.org), log-linear with three significant digits. Up to 2047 µs each
 * value has its own slot; above, each power of two has 1024 slots, so that the error of a value is
 * below 1/1024.
 */
#include "load/results.h"

#include <math.h>

#define LINEAR 2048 /* values with their own slots */
#define HALF   1024 /* slots of a power of two */

/* A slot leaves out the low bits of its values. */
static unsigned slot_of(uint64_t us)
{
	unsigned shift = us < LINEAR ? 0 : 63 - (unsigned)__builtin_clzll(us) - 10;

	return shift * HALF + (unsigned)(us >> shift);
}

/* The largest value of a slot. */
static uint64_t slot_end(unsigned slot)
{
	unsigned shift = slot < LINEAR ? 0 : slot / HALF - 1;

	return ((uint64_t)(slot - shift * HALF + 1) << shift) - 1;
}

struct histogram *histogram_new(void)
{
	return xcalloc(1, sizeof(struct histogram));
}

void histogram_clear(struct histogram *h)
{
	memset(h, 0, sizeof(*h));
}

void histogram_record(struct histogram *h, uint64_t us)
{
	if (us > HISTOGRAM_MAX)
		us = HISTOGRAM_MAX;
	if (!h->count || us < h->least)
		h->least = us;
	if (us > h->most)
		h->most = us;
	h->count++;
	h->sum += (double)us;
	h->slots[slot_of(us)]++;
}

void histogram_add(struct histogram *h, const struct histogram *more)
{
	if (!more->count)
		return;
	if (!h->count || more->least < h->least)
		h->least = more->least;
	if (more->most > h->most)
		h->most = more->most;
	h->count += more->count;
	h->sum += more->sum;
	for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++)
		h->slots[i] += more->slots[i];
}

uint64_t histogram_percentile(const struct histogram *h, double p)
{
	/* 99.9 per cent of 1000 are 999, whatever the last bit of the product. */
	double wanted = ceil(p / 100 * (double)h->count * (1 - 1e-12));
	uint64_t seen = 0;

	if (!h->count)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++) {
		seen += h->slots[i];
		if (seen && (double)seen >= wanted)
			return slot_end(i) < h->most ? slot_end(i) : h->most;
	}
	return h->most;
}

double histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}
