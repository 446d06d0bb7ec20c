/*
 * layer: turns one compressed tar stream into files, whiteouts included (OCI image-spec, layer.md).
 *
 * One pass, bounded memory: read -> inflate -> sha256 of the tar (the diff ID) -> libarchive's tar
 * reader -> openat(2) beneath the tree's descriptor. Layers are hostile: nothing is ever created,
 * changed or removed outside the tree, whatever "..", absolute name, symlink or hard link says
 * (every parent is resolved with RESOLVE_IN_ROOT).
 *
 * The tree that comes out is an overlayfs lower layer for mounts with "userxattr": a whiteout is a
 * character device 0:0, an opaque directory carries user.overlay.opaque=y. Owners are the caller's;
 * set-user-ID and set-group-ID bits are dropped; devices are skipped (counted); user.* xattrs kept,
 * but none that means something to overlayfs; modification times restored, on directories too.
 */
#ifndef MLR_LAYER_UNPACK_H
#define MLR_LAYER_UNPACK_H

#include "base/error.h"
#include "base/hash.h"
#include "base/strv.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum layer_compression { LAYER_PLAIN, LAYER_GZIP };

/* Where the compressed bytes come from. Fill buf with 1..len bytes; 0 at the end; -errno with err
 * set, which then ends the unpacking with that error. */
typedef ssize_t (*layer_read_fn)(void *ctx, void *buf, size_t len, struct mlr_error *err);

struct layer_result {
	char diff_id[8 + HASH_HEX_SIZE]; /* "sha256:<hex>" of the uncompressed tar, trailing bytes included */
	uint64_t bytes;                  /* uncompressed size */
	uint64_t entries;                /* tar members */
	uint64_t devices_skipped;
	struct strv implicit;            /* directories used but not named, "usr/lib"; made with mode 0755 */
};

#define LAYER_RESULT_INIT { 0 }

void layer_result_done(struct layer_result *r);

/*
 * Unpack one layer into an empty directory.
 *
 *   tree_fd  the directory; stays the caller's
 *
 * Returns 0; -EPROTO for a broken or truncated archive, -EBADMSG for a broken compressed stream,
 * -ELOOP, -ENOTDIR and the like for archives that try to leave the tree, -ENOSPC, -EDQUOT from the
 * file system, -EFBIG past a limit. Afterwards the tree may hold part of the layer: drop it.
 */
int layer_unpack(layer_read_fn read, void *ctx, enum layer_compression comp, int tree_fd,
	struct layer_result *ret, struct mlr_error *err);

#endif
