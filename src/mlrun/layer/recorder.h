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
 * What is at name in dir is about to be removed: keep the data of the files in it.
 *
 *   name  a file, a directory with all below it, or anything else, which is passed over
 *   real  its path without symlinks
 *
 * Returns 0, -EFBIG when more would be kept than the layer has, as only a bomb does: each of its
 * files needs it once at most, but a name that is made a hard link of a big file and replaced,
 * again and again, would be kept every time.
 */
int layer_recorder_keep(struct layer_recorder *r, int dir, const char *name, const char *real,
	struct mlr_error *err);

/*
 * The same for all in a directory that is about to become unreachable, "" for the top. To be called
 * when nothing is removed any more: what such a call has kept, a later one passes over.
 */
int layer_recorder_keep_closed(
	struct layer_recorder *r, int dir, const char *real, struct mlr_error *err);

/* After the last. */
int layer_recorder_end(struct layer_recorder *r, struct mlr_error *err);

#endif
