/*
 * A whole image as one squashfs file, written straight from its layers' streams, no tree in
 * between.
 *
 * Layers come top first, so that data which a layer above hides are never written; what applying
 * them in order makes of their names (image-spec, layer.md) is decided at the end, by the names
 * alone, which are kept in memory. Where a name that is hidden has hard links that are not, its
 * data were passed over though they are needed: then that layer must be read a second time.
 *
 *   rootfs_squash_new()
 *   for every layer, the topmost first: rootfs_squash_layer(), its members into the sink
 *   rootfs_squash_apply(); for every layer that rootfs_squash_lacks(): rootfs_squash_layer_again(),
 *   its members into the sink
 *   rootfs_squash_finish()
 *
 * Files are owned by 0:0: who serves the image shows them as the caller's, as those of unpacked
 * trees are. Times are whole seconds from 1970 to 2106. The same layers give the same bytes.
 */
#ifndef MLR_ROOTFS_SQUASH_H
#define MLR_ROOTFS_SQUASH_H

#include "base/error.h"
#include "layer/tar.h"

#include <stddef.h>
#include <stdint.h>

struct squash;

/* Was mlrun built with libsquashfs? Else rootfs_squash_new() fails with -ENOTSUP, saying so. */
int rootfs_squash_available(void);

/*
 *   fd      an empty file to write to, which is read as well; stays the caller's
 *   layers  how many there will be
 *   mtime   of the file system, seconds since 1970; directories that no layer names have 0, as in
 * trees
 */
int rootfs_squash_new(
	int fd, size_t layers, int64_t mtime, struct squash **ret, struct mlr_error *err);
void rootfs_squash_free(struct squash *s);

/* The next layer down begins; its members go to the sink, with s as the context. */
int rootfs_squash_layer(struct squash *s, struct mlr_error *err);
extern const struct layer_sink rootfs_squash_sink;

/* All layers were read: make one tree of them. Afterwards, must layer i (0 is the topmost) be read
 * again? Then do so before the end; its members go to the same sink. */
int rootfs_squash_apply(struct squash *s, struct mlr_error *err);
int rootfs_squash_lacks(const struct squash *s, size_t i);
int rootfs_squash_layer_again(struct squash *s, size_t i, struct mlr_error *err);

/* Write all that remains. The file is complete then, but not synced. */
int rootfs_squash_finish(struct squash *s, struct mlr_error *err);

#endif
