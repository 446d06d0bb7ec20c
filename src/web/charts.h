/* Draws the metrics of a run. */
#pragma once

#include "base/base.h"

#include <jansson.h>

/*
 * Draw a file of metrics: mltrain's as its report does, others' a chart for each number over the
 * steps.
 *
 *   path  the run's, for notes
 *   ret   HTML as a text, to json_decref()
 *
 * Returns 0, -EFBIG.
 */
int charts_make(int fd, off_t size, const char *path, json_t **ret, struct mlr_error *err);
