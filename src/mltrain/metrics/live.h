/*
 * What a person sees of a run, on stderr: on a terminal one line that is redrawn and never wider
 * than the window is at that moment; in a file or a pipe, which are read later, a line an epoch.
 */
#ifndef MLT_METRICS_LIVE_H
#define MLT_METRICS_LIVE_H

#include "metrics/rate.h"
#include "train/train.h"

struct live {
	int terminal;
	int drawn;       /* a line stands on the terminal */
	double drawn_at; /* by the monotonic clock, s */
	struct rate rate;
};

/* Start; whether stderr is a terminal is found out here. */
void live_init(struct live *l);

/* images: those of one step, on all ranks. */
void live_tell(struct live *l, const struct train_state *s, int images);

/* Take the redrawn line away, so that something else can be printed. */
void live_clear(struct live *l);

#endif
