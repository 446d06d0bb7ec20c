/*
 * Makes the record of a test, {"event": "test", ...}: the confusion matrix, and the worst mistakes
 * as pictures. mltrain eval --json prints it, and the log of a run contains it.
 */
#ifndef MLT_TEST_RECORD_H
#define MLT_TEST_RECORD_H

#include "data/dataset.h"
#include "train/evaluate.h"

#include <jansson.h>

/*
 * Make the record; mltrain(1) lists its keys.
 *
 *   names   names of the network's classes [e->classes], or NULL
 *   step    of the network
 */
json_t *test_record(
	const struct evaluation *e, const struct dataset *data, char *const *names, uint64_t step);

#endif
