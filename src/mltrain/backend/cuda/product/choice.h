/*
 * What measurements have shown to be faster, a library or a kernel of our own, kept in a file so
 * that no start searches: $XDG_CACHE_HOME/mlrun/cuda-DEVICE.choices, else below ~/.cache.
 *
 * The file is text: a first line that names the device and the versions of the driver and of this
 * program, then a line for each product: what was measured (product_key()), a tab, "own" or
 * "library N", with the place of the library's engine among those that its heuristics name. A file
 * with another first line, or one that is damaged, counts as none.
 */
#pragma once

#include "backend/cuda/device.h"

#define CHOICE_FILE_MAX ((size_t)1 << 20)

/* Read the device's file, unless it has been read. What can't be read is told at debug level. */
void choice_load(const struct device *device);

#define CHOICE_OWN     -1
#define CHOICE_UNKNOWN -2
#define CHOICE_ENGINES 8 /* that a library's heuristics are asked for */

/* The library's engine, 0 to CHOICE_ENGINES - 1; CHOICE_OWN; CHOICE_UNKNOWN: not measured. */
int choice_find(const char *key);

/* Note a measurement: an engine or CHOICE_OWN. */
void choice_set(const char *key, int engine);

/* Write the file anew, as one act. Returns 0 or a negative errno. */
int choice_save(struct mlr_error *err);
