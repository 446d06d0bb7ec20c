/*
 * The modes that an image means, where its trees show less: without the bits that let others write
 * (base/tighten.h).
 */
#ifndef MLR_ROOTFS_MODES_H
#define MLR_ROOTFS_MODES_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

#include <sys/stat.h>

struct rootfs_modes;

/* What the layers say, lowest first. A layer of an older mlrun, without a record, says nothing. */
int rootfs_modes_read(struct store *st, const struct strv *diff_ids, struct rootfs_modes **ret,
	struct mlr_error *err);
void rootfs_modes_free(struct rootfs_modes *m);

/*
 * The mode of a thing of an upper layer: what the image means where the image has it, of the same
 * type and with the mode that the tree shows, so that nobody has changed that; else its own. Set-ID
 * bits are its own.
 *
 *   path  "var/tmp", without symlinks; "." for the top
 */
mode_t rootfs_modes_meant(const struct rootfs_modes *m, const char *path, const struct stat *st);

#endif
