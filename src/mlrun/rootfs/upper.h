/*
 * What an overlay's upper directory holds, as a layer's tar (OCI image-spec, layer.md): a whiteout
 * (a character device 0:0) becomes ".wh.NAME", an opaque directory gets ".wh..wh..opq", files
 * belong to root. Names are in order and nothing of time or place but the files' own times is in
 * it, so the same files give the same bytes.
 */
#ifndef MLR_ROOTFS_UPPER_H
#define MLR_ROOTFS_UPPER_H

#include "base/error.h"
#include "base/strv.h"
#include "layer/record.h"
#include "rootfs/modes.h"

struct rootfs_upper {
	int fd;                           /* the directory; the caller's */
	const struct rootfs_modes *below; /* the image's that it lies on; NULL: none */
	const int *cancel;   /* read atomically; not 0 ends it with -ECANCELED. May be NULL */
	struct strv omitted; /* paths of what no layer can hold: sockets, devices, names that begin
			      * with ".wh."; those of the last call */
};

/* Write the tar; a rootfs_tar_fn (rootfs/fill.h) whose ctx is a struct rootfs_upper. Returns 0,
 * -EBUSY for a file that changes meanwhile, -EFBIG for directories beyond LAYER_DEPTH_MAX, write's
 * error. */
int rootfs_upper_tar(void *upper, layer_write_fn write, void *to, struct mlr_error *err);

/* Is there anything in it? 1, 0 or -errno. */
int rootfs_upper_has_any(int fd);

#endif
