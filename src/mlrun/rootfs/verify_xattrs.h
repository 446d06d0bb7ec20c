/*
 * Extended attributes of a layer's files, as its tar says and as its tree has them. For
 * verify_layer.c.
 */
#ifndef MLR_ROOTFS_VERIFY_XATTRS_H
#define MLR_ROOTFS_VERIFY_XATTRS_H

#include "layer/tar.h"

#include <stddef.h>

/* What a member said: a digest a name and value, since these may be long. */
struct xattr_sums {
	struct xattr_sum *v;
	size_t n;
};

void xattr_sums_take(struct xattr_sums *s, const struct layer_member *m);
void xattr_sums_done(struct xattr_sums *s);

/*
 * Has the file other ones? Those that the file system would not keep may lack; so what is wrong is
 * another value, and one that the tar does not name. Overlayfs's own do not count.
 */
int xattr_sums_differ(const struct xattr_sums *s, int fd);

#endif
