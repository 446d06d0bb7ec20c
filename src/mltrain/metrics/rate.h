/* The speed of a run: images per second of step time, smoothed, and the time left. */
#ifndef MLT_METRICS_RATE_H
#define MLT_METRICS_RATE_H

#include "train/train.h"

struct rate {
	/* The run's progress at its start, which may be a resumption, and at the latest call. */
	uint64_t first_step, step;
	double first_seconds, seconds;
	int first_epochs;
	double first_evaluate;
	/* Sums that decay over RATE_SMOOTH_S seconds of computing. */
	double images, spent;
};

#define RATE_SMOOTH_S 5.0

/* Begin a run, at step s->step. */
void rate_start(struct rate *r, const struct train_state *s);

/* Note the steps since the latest call. */
void rate_step(struct rate *r, const struct train_state *s, int images);

/* Images a second, smoothed; 0 before the first step. */
double rate_smooth(const struct rate *r);

/* The mean since the run began; 0 before the first step. */
double rate_mean(const struct rate *r, const struct train_state *s, int images);

/* Seconds to the end: the remaining steps at their mean time, and an evaluation per epoch. */
double rate_left(const struct rate *r, const struct train_state *s);

#endif
