/*
 * Writes a whole image as one squashfs file, directly from its layers' streams, without a tree on
 * disk.
 *
 * Layers come top first, so that data hidden by an upper layer is never written. The names are kept
 * in memory, and applying the layers in order (image-spec, layer.md) happens at the end, by names
 * alone. If a hidden name has hard links that are not hidden, its data was skipped but is needed;
 * that layer must then be read a second time.
 *
 *   squashfs_writer_new()
 *   for every layer, the topmost first: squashfs_writer_layer(), its members into the sink
 *   squashfs_writer_apply()
 *   for every layer that squashfs_writer_lacks(): squashfs_writer_layer_again(), its members into
 *       the sink
 *   squashfs_writer_finish()
 *
 * Files belong to 0:0; the server shows them as the caller's, like those of unpacked trees. Times
 * are whole seconds from 1970 to 2106. The same layers give the same bytes.
 */
#pragma once

#include "layer/tar.h"

struct squashfs_writer;

/* Was mlrun built with libsquashfs? If not, squashfs_writer_new() fails with -ENOTSUP. */
int squashfs_writer_available(void);

/*
 * Begin an image.
 *
 *   fd      a file, open for writing and reading, at whose end the image begins; stays the
 *           caller's
 *   how     OCI_GZIP, which all others read, or OCI_ZSTD
 *   layers  the number of layers
 *   mtime   of the file system, seconds since 1970; directories that no layer names have 0, as in
 *           trees
 */
int squashfs_writer_new(int fd, enum oci_compression how, size_t layers, int64_t mtime,
	struct squashfs_writer **ret, struct mlr_error *err);
void squashfs_writer_free(struct squashfs_writer *s);

/* Begin the next lower layer; its members go to the sink, with s as the context. */
int squashfs_writer_layer(struct squashfs_writer *s, struct mlr_error *err);
extern const struct layer_sink squashfs_writer_sink;

/* After all layers are read, combine them. Then layer i (0 is the topmost) must be read again, into
 * the same sink, if squashfs_writer_lacks() it. */
int squashfs_writer_apply(struct squashfs_writer *s, struct mlr_error *err);
int squashfs_writer_lacks(const struct squashfs_writer *s, size_t i);
int squashfs_writer_layer_again(struct squashfs_writer *s, size_t i, struct mlr_error *err);

/* Write the rest. The file is then complete, but not synced. */
int squashfs_writer_finish(struct squashfs_writer *s, struct mlr_error *err);
