/*
 * Which of the formats that an image is kept in its root is made of.
 */
#ifndef MLR_ROOTFS_CHOICE_H
#define MLR_ROOTFS_CHOICE_H

#include "store/facts.h"
#include "store/store.h"

/*
 * Trees before the squashfs file: they start and read faster, and who has both has asked for the
 * trees besides. The file before the trees where the store's "probe.json" says that its file system
 * cannot be a layer of overlayfs, unless FUSE is closed to this user.
 *
 *   formats  bits of enum store_format, at least one
 *   told     the choice for people, to free()
 */
enum store_format rootfs_choose(struct store *st, unsigned formats, char **told);

#endif
