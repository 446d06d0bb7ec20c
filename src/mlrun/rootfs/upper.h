/*
 * Writes an overlay's upper directory as a layer's tar (OCI image-spec, layer.md): a whiteout (a
 * character device 0:0) becomes ".wh.NAME", an opaque directory gets ".wh..wh..opq", and files
 * belong to whom base/file_owner.h or base/owners_file.h say, else root. The tar is reproducible:
 * names are sorted, and it has no times but the files'.
 */
#pragma once

#include "base/owners_file.h"
#include "layer/record.h"
#include "rootfs/layers.h"

struct rootfs_upper {
	int fd; /* the upper directory; the caller's */
	/* The image below, whose trees lack write permission for others (base/tighten.h), and its
	 * names, which have the modes that it specifies. May be NULL, both. */
	const struct rootfs_layers *below;
	const struct rootfs_names *names;
	int64_t newest; /* later times become this one, in seconds since 1970; 0: none do */
	struct owners_file *owners; /* of links and fifos; may be NULL */
	const int *cancel; /* read atomically; not 0 stops the work with -ECANCELED. May be NULL */
	struct strv omitted; /* paths that no layer can hold: sockets, devices, names that begin
			      * with ".wh."; of the last call */
};

/* Write the tar; a rootfs_tar_fn (rootfs/fill.h) whose ctx is a struct rootfs_upper. Returns 0;
 * -EBUSY if a file changes meanwhile; -EFBIG for directories deeper than LAYER_DEPTH_MAX; write's
 * error. */
int rootfs_upper_tar(void *upper, layer_write_fn write, void *to, struct mlr_error *err);

/* Is the upper directory non-empty? 1, 0 or -errno. */
int rootfs_upper_has_any(int fd);
