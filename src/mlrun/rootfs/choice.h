/* Chooses the format to make an image's root from. */
#ifndef MLR_ROOTFS_CHOICE_H
#define MLR_ROOTFS_CHOICE_H

#include "store/facts.h"
#include "store/store.h"

/*
 * Choose among the formats in which the store keeps an image. Trees come before the squashfs file:
 * they start and read faster, and a store with both has them because the user asked for trees, too.
 * The squashfs file comes first if the store's "probe.json" says that its file system cannot be a
 * layer of overlayfs, unless this user cannot open FUSE.
 *
 *   formats  bits of enum store_format, at least one
 *   told     the choice in words, to free()
 */
enum store_format rootfs_choose(struct store *st, unsigned formats, char **told);

#endif
