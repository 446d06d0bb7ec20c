/*
 * Compares extended attributes of a layer's files, in its tar and in its tree. For verify_layer.c.
 */
#ifndef MLR_ROOTFS_VERIFY_XATTRS_H
#define MLR_ROOTFS_VERIFY_XATTRS_H

#include "layer/tar.h"

#include <stddef.h>

/* A member's xattrs: one digest for each name and value, since these may be long. */
struct xattr_sums {
	struct xattr_sum *v;
	size_t n;
};

void xattr_sums_take(struct xattr_sums *s, const struct layer_member *m);
void xattr_sums_done(struct xattr_sums *s);

/*
 * Do the file's xattrs differ? A missing one does not count, as the file system may have refused
 * it; a different value or an extra name does. Ignores overlayfs's own.
 */
int xattr_sums_differ(const struct xattr_sums *s, int fd);

#endif
