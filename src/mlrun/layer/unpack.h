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
 * set-user-ID and set-group-ID bits are dropped, and so are those by which others would write to a
 * tree that they may enter (base/tighten.h; the record has them); devices are skipped (counted);
 * user.* xattrs kept, but none that means something to overlayfs, and file capabilities under
 * another name (base/file_owner.h), which have no effect; modification times restored, on
 * directories too. Within a layer the last member of a name wins, as with tar; an addition wins
 * over a whiteout of the same name whatever their order.
 */
#pragma once

#include "base/base.h"
#include "oci/compression.h"

/*
 * Reads compressed bytes. Fill buf with 1..len bytes; return 0 at the end, or -errno with err set,
 * which ends the unpacking. A thread of layer_unpack() calls this, one call at a time;
 * layer_unpack() returns only after the last call.
 */
typedef ssize_t (*layer_read_fn)(void *ctx, void *buf, size_t len, struct mlr_error *err);

struct layer_result {
	char diff_id[8 + HASH_HEX_SIZE]; /* "sha256:<hex>" of the whole uncompressed tar */
	uint64_t bytes;                  /* uncompressed size */
	uint64_t entries;                /* tar members */
	uint64_t devices_skipped;
	/* Sorted paths like "usr/lib", "." for the top: directories that the layer used without
	 * naming them (mode 0755, time 0), and those with whiteouts. */
	struct strv implicit, hiding;
	/* "1777 var/tmp": directories that everybody may write to, with their modes; LAYER_OPEN_MAX
	 * at most. In the tree only their owner may. */
	struct strv open;
	/* Owners of links and fifos that are not root's: records of base/owners_file.h. */
	struct strv owners;
};

#define LAYER_OPEN_MAX 64

void layer_result_done(struct layer_result *r);

/*
 * Limits, against bombs. The compression ratio has none, since files of zeros are legitimate and
 * the disk limits them: a file is given up before its bytes, without holes, fill the disk. Paths
 * have at most 4095 bytes and LAYER_DEPTH_MAX components, and a name at most what the file system
 * allows (255 bytes).
 */
struct layer_limits {
	uint64_t entries;  /* tar members */
	uint64_t bytes;    /* of the uncompressed tar; also of all files' sizes, holes included */
	size_t dir_memory; /* bytes to remember directories in, about 100 each */
};

#define LAYER_DEPTH_MAX 256
#define LAYER_HEADER_MAX \
	(4u << 20) /* bytes of one member's headers, a sparse file's map included */
/* 8 million members, 1 TiB, 32 MiB. */
#define LAYER_LIMITS_DEFAULT                    \
	{                                       \
		8u << 20, 1ull << 40, 32u << 20 \
	}

/*
 * Unpack one layer into an empty directory.
 *
 *   tree_fd    the directory; stays the caller's
 *   record_fd  an empty file to write the layer's record to (layer/record.h), -1 for none; the
 *              caller's
 *   limits     LAYER_LIMITS_DEFAULT where not given
 *
 * Returns 0; -EPROTO for a broken or truncated archive, -EBADMSG for a broken compressed stream,
 * -ELOOP, -ENOTDIR and the like for archives that try to leave the tree, -ENOSPC, -EDQUOT from the
 * file system, -EFBIG past a limit. Afterwards the tree may hold part of the layer: drop it.
 */
int layer_unpack(layer_read_fn read, void *ctx, enum oci_compression comp, int tree_fd,
	int record_fd, struct layer_result *ret, struct mlr_error *err);
int layer_unpack_limited(layer_read_fn read, void *ctx, enum oci_compression comp, int tree_fd,
	int record_fd, const struct layer_limits *limits, struct layer_result *ret,
	struct mlr_error *err);
