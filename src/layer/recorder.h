/*
 * Writes a layer's record (layer/record.h) while the layer is being unpacked.
 */
#ifndef MLR_LAYER_RECORDER_H
#define MLR_LAYER_RECORDER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct layer_recorder;

/* fd is an empty file; it stays the caller's. Returns 0 or -ENOMEM. */
int layer_recorder_new(int fd, struct layer_recorder **ret, struct mlr_error *err);
void layer_recorder_free(struct layer_recorder *r);

/*
 * The stretches of the tar, in order: bytes that no file holds, and files by their path without
 * symlinks. Like all below, they return 0, or what writing fails with.
 */
int layer_recorder_raw(
	struct layer_recorder *r, const void *buf, size_t len, struct mlr_error *err);
int layer_recorder_file(
	struct layer_recorder *r, const char *real, uint64_t size, struct mlr_error *err);

/*
 * What is at name in dir is about to go, or to become unreachable: keep the data of the files in
 * it.
 *
 *   name  a file, a directory with all below it, or anything else, which is passed over
 *   real  its path without symlinks, "" for the top
 */
int layer_recorder_keep(struct layer_recorder *r, int dir, const char *name, const char *real,
	struct mlr_error *err);

/* After the last. */
int layer_recorder_end(struct layer_recorder *r, struct mlr_error *err);

#endif
