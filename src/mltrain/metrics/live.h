/*
 * A run's progress for people, on stderr. On a terminal it is one line that is redrawn and never
 * wider than the window; in a file or a pipe, which are read later, it is a line per epoch.
 */
#pragma once

#include "train/train.h"

/* --- rate.c: the speed of a run, in images per second of step time, and the time left --- */

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

/* --- the live line --- */

struct live {
	int terminal;
	int drawn;       /* a line is on the terminal */
	double drawn_at; /* by the monotonic clock, s */
	struct rate rate;
};

/* Start, and look whether stderr is a terminal. */
void live_init(struct live *l);

/* images: per step, on all ranks. */
void live_tell(struct live *l, const struct train_state *s, int images);

/* Erase the redrawn line, so that something else can be printed. */
void live_clear(struct live *l);

/* --- tflog.c: the lines that TensorFlow's tutorial prints --- */

struct tflog {
	FILE *to; /* borrowed */
	uint64_t step;
	double seconds; /* step_seconds at that step */
};

/*
 * Print a moment's lines, if it has any. A block comes with TRAIN_VALIDATED, so the run needs
 * validate_every. The tutorial prints no block at the end of an epoch.
 *
 *   images   per step
 */
void tflog_tell(struct tflog *l, const struct train_state *s, int images);
