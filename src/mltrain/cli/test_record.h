/*
 * The record of a test, {"event": "test", ...}: how many images of each class were taken for which,
 * and the worst mistakes as pictures. What mltrain eval --json prints, and the log of a run holds.
 */
#ifndef MLT_TEST_RECORD_H
#define MLT_TEST_RECORD_H

#include "data/dataset.h"
#include "train/evaluate.h"

#include <jansson.h>

/*
 * Make the record; mltrain(1) tells its keys.
 *
 *   names   of the network's classes [e->classes], or NULL: numbers
 *   step    that the network stood at
 */
json_t *test_record(
	const struct evaluation *e, const struct dataset *data, char *const *names, uint64_t step);

#endif
