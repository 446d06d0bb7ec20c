/*
 * The data part of a squashfs image: files cut into blocks, blocks compressed by several threads
 * and written in the order of coming, the files that are smaller than a block packed together
 * ("fragments"). So the bytes do not depend on the number of threads.
 *
 * libsquashfs's block processor compresses; what it would do beyond that (a list of blocks a file,
 * the packing, looking for files that are alike) is done here or not at all, so that a hole costs
 * nothing and memory is bounded.
 */
#ifndef MLR_SQUASHFS_BLOCKS_H
#define MLR_SQUASHFS_BLOCKS_H

#include "base/error.h"
#include "squashfs/names.h"
#include "squashfs/writer_file.h"

#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>

struct squashfs_blocks;

/* names is where the lists of blocks are kept. fragments gets an entry a packed block. */
int squashfs_blocks_new(struct squashfs_file *file, sqfs_compressor_t *compressor,
	sqfs_frag_table_t *fragments, size_t block_size, struct squashfs_names *names,
	struct squashfs_blocks **ret, struct mlr_error *err);
void squashfs_blocks_free(struct squashfs_blocks *b);

/* One file: begin, then its data in rising order of offset, what is left out being holes, then end.
 * data->raw says whether to store whole blocks as they are; the rest is filled in by the time
 * squashfs_blocks_finish() has returned. */
int squashfs_blocks_begin(struct squashfs_blocks *b, struct squashfs_names_data *data,
	uint64_t size, struct mlr_error *err);
int squashfs_blocks_data(struct squashfs_blocks *b, const void *buf, size_t len, uint64_t offset,
	struct mlr_error *err);
int squashfs_blocks_end(struct squashfs_blocks *b, struct mlr_error *err);

/* After the last file: wait until all is written. */
int squashfs_blocks_finish(struct squashfs_blocks *b, struct mlr_error *err);

#endif
