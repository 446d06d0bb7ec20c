/*
 * How a layer's tree hides names of the layers below: overlayfs's marks with "userxattr" (kernel,
 * Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories").
 */
#ifndef MLR_LAYER_WHITEOUT_H
#define MLR_LAYER_WHITEOUT_H

#include "base/error.h"

#include <sys/stat.h>

#define LAYER_OPAQUE_XATTR "user.overlay.opaque"

/* Is it a whiteout: a character device 0:0? */
int layer_whiteout_is(const struct stat *sb);

/* Hide a name in a directory. Returns 0; -EEXIST if the directory has the name; or another -errno.
 */
int layer_whiteout_make(int dir_fd, const char *name, struct mlr_error *err);

/* Hide everything that the layers below have in a directory, "." for dir_fd itself. */
int layer_opaque_set(int dir_fd, const char *name, struct mlr_error *err);

/* Does the directory (open for reading) hide everything below? */
int layer_opaque_is(int fd);

#endif
