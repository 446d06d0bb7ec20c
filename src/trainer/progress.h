/*
 * What a person sees of a run, on stderr: on a terminal one line that is redrawn, in a file or a
 * pipe a line every ten seconds; and a line an epoch on both.
 */
#ifndef MLT_PROGRESS_H
#define MLT_PROGRESS_H

#include "trainer/train/train.h"

struct progress {
	int terminal;
	int drawn;         /* a line stands on the terminal */
	double last;       /* when the latest line was said, by the monotonic clock, s */
	uint64_t step;     /* and where training stood then */
	double step_seconds;
	double rate;       /* images/s between the two latest lines */
};

/* Start; whether stderr is a terminal is found out here. */
void progress_init(struct progress *p);

void progress_tell(struct progress *p, const struct train_state *s, const struct train_options *o);

/* Take the redrawn line away, so that something else can be printed. */
void progress_clear(struct progress *p);

#endif
