/*
 * What measurements have shown to be faster, a library or a kernel of our own, kept in a file so
 * that no start searches: $XDG_CACHE_HOME/mlrun/cuda-DEVICE.choices, else below ~/.cache.
 *
 * The file is text: a first line that names the device and the versions of the driver and of this
 * program, then a line for each product: what was measured (product_key()), a tab, "own" or
 * "library". A file with another first line, or one that is damaged, counts as none.
 */
#ifndef MLT_BACKEND_CUDA_PRODUCT_CHOICE_H
#define MLT_BACKEND_CUDA_PRODUCT_CHOICE_H

#include "base/error.h"
#include "backend/cuda/device.h"

#define CHOICE_FILE_MAX ((size_t)1 << 20)

/* Read the device's file, unless it has been read. What can't be read is told at debug level. */
void choice_load(const struct device *device);

/* 1: the library, 0: our own, -1: not measured. */
int choice_find(const char *key);

/* Note a measurement. */
void choice_set(const char *key, int library);

/* Write the file anew, as one act. Returns 0 or a negative errno. */
int choice_save(struct mlr_error *err);

#endif
