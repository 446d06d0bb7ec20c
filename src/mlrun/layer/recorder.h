/*
 * Writes a layer's record (layer/record.h) while the layer is being unpacked.
 */
#pragma once

#include "base/base.h"

struct layer_recorder;

/* fd is an empty file; it stays the caller's. Returns 0 or -ENOMEM. */
int layer_recorder_new(int fd, struct layer_recorder **ret, struct mlr_error *err);
void layer_recorder_free(struct layer_recorder *r);

/*
 * Record the next stretch of the tar: bytes, or a file by its path without symlinks. Like the
 * functions below, they return 0 or the error of writing.
 */
int layer_recorder_raw(
	struct layer_recorder *r, const void *buf, size_t len, struct mlr_error *err);
int layer_recorder_file(
	struct layer_recorder *r, const char *real, uint64_t size, struct mlr_error *err);

/*
 * Keep the data of the files that are about to be removed, or to become unreachable, at name in
 * dir.
 *
 *   name  a file, a directory with all below it, or anything else, which is skipped
 *   real  its path without symlinks
 *
 * Returns 0, or -EFBIG if the record would keep more than the layer has. Each file needs keeping
 * once at most; but a bomb could make a name a hard link of a large file and replace it, again and
 * again.
 */
int layer_recorder_keep(struct layer_recorder *r, int dir, const char *name, const char *real,
	struct mlr_error *err);

/* Finish the record. */
int layer_recorder_end(struct layer_recorder *r, struct mlr_error *err);
