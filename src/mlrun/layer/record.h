/*
 * A layer's record: what its unpacked tree can't hold, so that the tar can be written again bit for
 * bit (the idea of vbatts/tar-split). The tar is cut into stretches: those that are the whole data
 * of a regular file are named by the file's path in the tree, all others (headers, padding, data of
 * sparse files, of files that their owner may not read, of what was skipped) are kept.
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
 * with varint as in LEB128 (7 bits a byte, least significant first). Paths have no symlinks in them
 * and no leading '/', "." or "..". A path's 'D' comes late, because only a later member tells; so
 * the reader goes over the record twice.
 */
#ifndef MLR_LAYER_RECORD_H
#define MLR_LAYER_RECORD_H

#include "base/error.h"
#include "base/hash.h"
#include "layer/codec.h"

#include <stddef.h>
#include <stdint.h>

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
 * Returns 0; -EPROTO for a record that is none; -EFBIG for one that asks for more than a layer may;
 * -EBADMSG for a file that is missing, is no regular file or has another size than the record says
 * (err names it); -EACCES for one that cannot be read; write's error. The caller compares diff_id:
 * a file whose bytes were changed in place shows only there.
 */
int layer_rebuild(int record_fd, int tree_fd, layer_write_fn write, void *ctx,
	char diff_id[8 + HASH_HEX_SIZE], uint64_t *bytes, struct mlr_error *err);

/*
 * Can layer_rebuild() read all that it will want? Every file is opened, none is read.
 *
 * Returns 0, or layer_rebuild()'s failure to open one.
 */
int layer_rebuild_check(int record_fd, int tree_fd, struct mlr_error *err);

/* Takes a member, whiteouts included, in the order of the tar. Returns 0, or -errno with err set to
 * end it. */
typedef int (*layer_header_fn)(void *ctx, struct archive_entry *e, struct mlr_error *err);

/* Give fn each member's header, from the record alone: no file is read. Returns 0, -EPROTO for a
 * record that is none, fn's failure. */
int layer_headers(int record_fd, layer_header_fn fn, void *ctx, struct mlr_error *err);

#endif
