/* Writes an image's or a container's root as one squashfs or SIF file, with its configuration in
 * it. */
#pragma once

#include "export/export.h"

struct export_squashed {
	struct strv omitted; /* variables with a line break, which the file cannot hold */
	size_t layers;       /* of the image */
};

void export_squashed_done(struct export_squashed *s);

/*
 * Write the file: EXPORT_SQUASHFS is what squashfs:FILE, Enroot and Pyxis run (oci/enroot.h),
 * EXPORT_SIF what Apptainer does, too (sif/sif.h). Owners, set-ID bits and devices are not in it.
 * The process must be single-threaded.
 *
 *   store   --store's value, or NULL
 *   image   a name, or "container:NAME" for a container as it is now, of which what runs in it
 *           writes may be there in part
 *   path    a regular file, which appears or is replaced when it is complete
 *   opt     format, compression, which is OCI_GZIP or OCI_ZSTD, name and cancel
 *
 * Returns 0; -ENOENT, -ENXIO and -EBUSY as rootfs_kept_plan(); -ENOTSUP without libsquashfs;
 * -ENOSPC and the like.
 */
int export_squash(const char *store, const char *image, const char *path,
	const struct export_options *opt, struct export_squashed *ret, struct mlr_error *err);
