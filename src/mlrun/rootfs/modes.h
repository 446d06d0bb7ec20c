/*
 * The modes that an image specifies, where its trees show less: trees are made without write
 * permission for others (base/tighten.h).
 */
#ifndef MLR_ROOTFS_MODES_H
#define MLR_ROOTFS_MODES_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

#include <sys/stat.h>

struct rootfs_modes;

/* Read the modes from the layers' records, lowest first. Layers of an older mlrun have no record
 * and are skipped. */
int rootfs_modes_read(struct store *st, const struct strv *diff_ids, struct rootfs_modes **ret,
	struct mlr_error *err);
void rootfs_modes_free(struct rootfs_modes *m);

/* Has one of the layers a file at this path, which has no symlinks? */
int rootfs_modes_has(const struct rootfs_modes *m, const char *path);

/*
 * The mode for an entry of an upper layer. If the image has an entry of the same type there, and
 * its mode in the tree is unchanged, the image's specified mode; else the entry's own. Set-ID bits
 * are always the entry's own. So is the mode where the image's entry records it itself
 * (base/file_owner.h): a changed entry keeps that record, and one without it is new.
 *
 *   path  "var/tmp", without symlinks; "." for the top
 */
mode_t rootfs_modes_meant(const struct rootfs_modes *m, const char *path, const struct stat *st);

#endif
