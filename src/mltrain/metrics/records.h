/* The records of a log: a moment of training as JSON. mltrain(1) documents the keys. */
#ifndef MLT_METRICS_RECORDS_H
#define MLT_METRICS_RECORDS_H

#include "data/dataset.h"
#include "metrics/usage.h"
#include "train/train.h"

#include <jansson.h>

/* The images of one step, on all ranks. */
int record_images(const struct train_options *o);

/* The run and its hyper-parameters: "run". */
json_t *record_run(
	const struct train_state *s, const struct train_options *o, const struct dataset *data);

/*
 * The run's progress. Steps, epochs, interruptions and the end have the same keys.
 *
 *   rate   images a second since the run began
 */
json_t *record_state(const char *event, const struct train_state *s, double rate);

/* A change of elastic ranks: "ranks". */
json_t *record_ranks(const struct train_state *s);

/* A sample of the load: "load". */
json_t *record_load(const struct usage *l, uint64_t step);

#endif
