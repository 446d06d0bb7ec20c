/*
 * A run's progress for people, on stderr. On a terminal it is one line that is redrawn and never
 * wider than the window; in a file or a pipe, which are read later, it is a line per epoch.
 */
#ifndef MLT_METRICS_LIVE_H
#define MLT_METRICS_LIVE_H

#include "metrics/rate.h"
#include "train/train.h"

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

#endif
