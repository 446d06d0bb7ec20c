/*
 * Reads a layer's record (layer/record.h), which may come from a stranger: as bytes, and by
 * stretches. For the files of this room. An invalid record is -EPROTO.
 */
#ifndef MLR_LAYER_RECORD_READER_H
#define MLR_LAYER_RECORD_READER_H

#include "base/base.h"

#include <zstd.h>

/* A reader, at a position of a record. */
struct record_reader {
	int fd;
	off_t at; /* in the file */
	ZSTD_DCtx *ctx;
	uint8_t *in, *out; /* BUFFER_SIZE each */
	ZSTD_inBuffer input;
	size_t taken, filled; /* of out */
	uint64_t position;    /* bytes taken so far, decompressed */
	int frame_ended;
};

/* fd stays the caller's; several readers may share it. Returns 0 or -ENOMEM; call
 * record_reader_done() in either case. */
int record_reader_init(struct record_reader *r, int fd, struct mlr_error *err);
void record_reader_done(struct record_reader *r);
/* Go back to the beginning. */
void record_reader_rewind(struct record_reader *r);

/* Take the next 1 to max bytes, in place until the next call. Returns how many. */
ssize_t record_take_some(
	struct record_reader *r, uint64_t max, const uint8_t **ret, struct mlr_error *err);
/* Take the next len bytes. */
int record_take(struct record_reader *r, void *buf, size_t len, struct mlr_error *err);
int record_pass_over(struct record_reader *r, uint64_t len, struct mlr_error *err);

struct record_stretch {
	char kind;
	uint64_t size;
	char path[PATH_MAX]; /* of 'F' and 'D' */
};

/* Take the record's first line, then one stretch after the other; the bytes of 'R' and 'D' remain
 * to be taken. Nothing may follow 'E', neither in the frame nor after it. */
int record_take_magic(struct record_reader *r, struct mlr_error *err);
int record_next(struct record_reader *r, struct record_stretch *s, struct mlr_error *err);
int record_take_end(struct record_reader *r, struct mlr_error *err);

#endif
