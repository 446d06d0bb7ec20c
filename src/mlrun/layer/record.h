/*
 * A layer's record: what its unpacked tree lacks to write the tar again bit for bit (the idea of
 * vbatts/tar-split). The tar is cut into stretches. One that is the whole data of a regular file is
 * recorded as the file's path in the tree. All others are recorded as bytes: headers, padding, and
 * the data of sparse files, of files that their owner may not read and of skipped members.
 *
 * The file "meta.zst" beside the tree is one zstd frame (RFC 8878) of, in order,
 *
 *   "MLRLAYER1\n"
 *   'R' varint n, n bytes           raw bytes of the tar
 *   'F' varint n, varint p, p bytes the next n bytes are those of the file at this path of the tree
 *   'D' varint n, varint p, p bytes, n bytes
 *                                   the file at this path was about to be replaced, or to become
 *                                   unreachable, and held these bytes. The first 'D' after an 'F'
 *                                   of the same path has the latter's bytes, not the tree
 *   'E' varint n                    the end: the tar has n bytes
 *
 * with varint as in LEB128 (7 bits a byte, least significant first). Paths contain no symlinks and
 * no leading '/', "." or "..". A 'D' comes later than its 'F', when a member replaces the file, so
 * the reader reads the record twice.
 */
#pragma once

#include "layer/codec.h"

#include <zstd.h>

struct archive_entry; /* libarchive's */

#define LAYER_RECORD_NAME  "meta.zst" /* beside the tree */
#define LAYER_RECORD_MAGIC "MLRLAYER1\n"

/*
 * Write a layer's tar again.
 *
 *   record_fd  "meta.zst", open for reading; read from its beginning by pread(2)
 *   tree_fd    the layer's tree; files are opened beneath it without following symlinks
 *   write      may be NULL: only hash
 *   diff_id    "sha256:<hex>" of what was written
 *   bytes      its length
 *
 * Returns 0; -EPROTO for an invalid record; -EFBIG for one beyond a layer's limits; -EBADMSG for a
 * file that is missing, not regular or of another size than recorded (err names it); -EACCES for
 * one that cannot be read; write's error. The caller must compare diff_id: nothing else shows that
 * a file's bytes were changed in place.
 */
int layer_rebuild(int record_fd, int tree_fd, layer_write_fn write, void *ctx,
	char diff_id[8 + HASH_HEX_SIZE], uint64_t *bytes, struct mlr_error *err);

/*
 * Check that layer_rebuild() can open all its files, without reading them.
 *
 * Returns 0, or layer_rebuild()'s error.
 */
int layer_rebuild_check(int record_fd, int tree_fd, struct mlr_error *err);

/* Receives a member, whiteouts included, in the order of the tar. Returns 0, or -errno with err set
 * to stop. */
typedef int (*layer_header_fn)(void *ctx, struct archive_entry *e, struct mlr_error *err);

/* Call fn with each member's header, from the record alone. Returns 0, -EPROTO for an invalid
 * record, or fn's error. */
int layer_headers(int record_fd, layer_header_fn fn, void *ctx, struct mlr_error *err);

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

/* Take the next 1 to max bytes, in place until the next call. Returns how many. */
ssize_t record_take_some(
	struct record_reader *r, uint64_t max, const uint8_t **ret, struct mlr_error *err);
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
