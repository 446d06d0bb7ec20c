/*
 * Reads a layer's tar and calls a sink for each member: the writer of a directory tree
 * (layer/unpack.h), or of a squashfs image. One pass, bounded memory: read -> inflate -> sha256 of
 * the tar (the diff ID) -> libarchive's tar reader -> the sink.
 */
#pragma once

#include "layer/unpack.h"

struct layer_xattr {
	const char *name; /* "user.…", but none that overlayfs obeys */
	const void *value;
	size_t size;
};

/* Kinds of members, and of names in trees. */
enum layer_kind {
	LAYER_FILE,
	LAYER_DIR,
	LAYER_SYMLINK,
	LAYER_FIFO,
	LAYER_LINK,     /* another name of a file of this layer */
	LAYER_WHITEOUT, /* hides the path; "a/b" for a member "a/.wh.b" */
	LAYER_OPAQUE,   /* hides what the layers below have in the directory */
};

/* One member; valid during the call. */
struct layer_member {
	enum layer_kind kind;
	const char *path;   /* without "." and ".." and a leading '/', "" is the top */
	const char *target; /* a symlink's, unchanged; a hard link's, cleaned like path */
	mode_t mode;        /* permission bits and the sticky bit */
	mode_t set_ids;     /* set-ID bits, which no file gets (base/file_owner.h) */
	int64_t uid, gid;   /* from the tar; no file is given to them */
	struct timespec mtime;
	uint64_t size;                    /* of a regular file, holes included */
	const struct layer_xattr *xattrs; /* n_xattrs of them; files and directories only */
	size_t n_xattrs;
	int verbatim; /* a regular file whose data() are exactly the next size bytes of the tar */
};

/*
 * Receives the members. Every function returns 0, or -errno with err set to stop.
 *
 * A file is file(), then data() for each part that is not a hole, in rising order of offset, then
 * file_end(). All other kinds are name(). Devices and AUFS's own marks are skipped.
 *
 * raw may be NULL. Otherwise it gets every byte of the tar that is not data of a verbatim file: the
 * tar is the bytes of raw() and of the verbatim files' data(), in order of raw() and file(). It may
 * be called between the data() of other files.
 */
struct layer_sink {
	int (*file)(void *ctx, const struct layer_member *m, struct mlr_error *err);
	int (*data)(void *ctx, const void *buf, size_t len, uint64_t offset, struct mlr_error *err);
	int (*file_end)(void *ctx, const struct layer_member *m, struct mlr_error *err);
	int (*name)(void *ctx, const struct layer_member *m, struct mlr_error *err);
	int (*raw)(void *ctx, const void *buf, size_t len, struct mlr_error *err);
};

/*
 * Read a layer to its last byte.
 *
 *   ret  gets diff_id, bytes, entries and devices_skipped; its lists stay unchanged
 *
 * Returns 0, layer_unpack()'s errors of streams, archives and limits, or the sink's error.
 */
int layer_tar_read(layer_read_fn read, void *read_ctx, enum oci_compression comp,
	const struct layer_limits *limits, const struct layer_sink *sink, void *sink_ctx,
	struct layer_result *ret, struct mlr_error *err);

/*
 * Read a stored layer's members from its record alone (layer/record.h).
 *
 *   sink  has file() and name() only: the data are not in the record
 *
 * Returns 0; -EPROTO for an invalid record; the sink's error.
 */
int layer_tar_headers(
	int record_fd, const struct layer_sink *sink, void *sink_ctx, struct mlr_error *err);
