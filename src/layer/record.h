/*
 * A layer's record: what its unpacked tree can't hold, so that the tar can be written again bit for
 * bit (the idea of vbatts/tar-split). The tar is cut into stretches: those that are the whole data
 * of a file in the tree are named by the file's path, all others (headers, padding, data of members
 * that a later one of the same name replaced, of sparse files, of what was skipped) are kept.
 *
 * The file "meta.zst" beside the tree is a zstd frame (RFC 8878) of, in order,
 *
 *   "MLRLAYER1\n"
 *   'R' varint n, n bytes           raw bytes of the tar
 *   'F' varint n, varint p, p bytes the next n bytes are those of the file at this path of the tree
 *   'E' varint n                    the end: the tar has n bytes
 *
 * with varint as in LEB128 (7 bits a byte, least significant first).
 */
#ifndef MLR_LAYER_RECORD_H
#define MLR_LAYER_RECORD_H

#include "base/error.h"
#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

/* Takes the next bytes of the tar. Returns 0, or -errno with err set to end it. */
typedef int (*layer_write_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

/*
 * Write a layer's tar again.
 *
 *   record_fd  "meta.zst", open for reading at its beginning
 *   tree_fd    the layer's tree; files are opened beneath it without following symlinks
 *   write      may be NULL: only hash
 *   diff_id    "sha256:<hex>" of what was written
 *   bytes      its length
 *
 * Returns 0; -EPROTO for a record that is none; -EBADMSG for a file that is missing, is no regular
 * file or has another size than the record says (err names it); write's error. The caller compares
 * diff_id: a file whose bytes were changed in place shows only there.
 */
int layer_rebuild(int record_fd, int tree_fd, layer_write_fn write, void *ctx,
	char diff_id[8 + HASH_HEX_SIZE], uint64_t *bytes, struct mlr_error *err);

#endif
