/*
 * A whole image as one squashfs file, written straight from its layers' streams, no tree in
 * between.
 *
 * Layers come top first, so that data which a layer above hides are never written; what applying
 * them in order makes of their names (image-spec, layer.md) is decided at the end, by the names
 * alone, which are kept in memory. Where a name that is hidden has hard links that are not, its
 * data were passed over though they are needed: then that layer must be read a second time.
 *
 *   squashfs_writer_new()
 *   for every layer, the topmost first: squashfs_writer_layer(), its members into the sink
 *   squashfs_writer_apply(); for every layer that squashfs_writer_lacks():
 * squashfs_writer_layer_again(), its members into the sink squashfs_writer_finish()
 *
 * Files are owned by 0:0: who serves the image shows them as the caller's, as those of unpacked
 * trees are. Times are whole seconds from 1970 to 2106. The same layers give the same bytes.
 */
#ifndef MLR_SQUASHFS_WRITER_H
#define MLR_SQUASHFS_WRITER_H

#include "base/error.h"
#include "layer/tar.h"

#include <stddef.h>
#include <stdint.h>

struct squashfs_writer;

/* Was mlrun built with libsquashfs? Else squashfs_writer_new() fails with -ENOTSUP, saying so. */
int squashfs_writer_available(void);

/*
 *   fd      an empty file to write to, which is read as well; stays the caller's
 *   layers  how many there will be
 *   mtime   of the file system, seconds since 1970; directories that no layer names have 0, as in
 * trees
 */
int squashfs_writer_new(
	int fd, size_t layers, int64_t mtime, struct squashfs_writer **ret, struct mlr_error *err);
void squashfs_writer_free(struct squashfs_writer *s);

/* The next layer down begins; its members go to the sink, with s as the context. */
int squashfs_writer_layer(struct squashfs_writer *s, struct mlr_error *err);
extern const struct layer_sink squashfs_writer_sink;

/* All layers were read: make one tree of them. Afterwards, must layer i (0 is the topmost) be read
 * again? Then do so before the end; its members go to the same sink. */
int squashfs_writer_apply(struct squashfs_writer *s, struct mlr_error *err);
int squashfs_writer_lacks(const struct squashfs_writer *s, size_t i);
int squashfs_writer_layer_again(struct squashfs_writer *s, size_t i, struct mlr_error *err);

/* Write all that remains. The file is complete then, but not synced. */
int squashfs_writer_finish(struct squashfs_writer *s, struct mlr_error *err);

#endif
