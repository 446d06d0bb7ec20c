/*
 * Writes the data part of a squashfs image. Files are cut into blocks; several threads compress the
 * blocks, which are written in order; files smaller than a block are packed together ("fragments").
 * The bytes therefore do not depend on the number of threads.
 *
 * Only libsquashfs's block processor is used, to compress. Its other features (a list of blocks for
 * each file, packing, finding equal files) are done here or not at all, so that a hole costs
 * nothing and memory is bounded.
 */
#pragma once

#include "layer/names.h"
#include "squashfs/writer_file.h"

#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>

struct squashfs_blocks;

/* Where a file's data is in the image (the squashfs format, "file inodes"). */
struct squashfs_data {
	uint64_t size, start, sparse; /* bytes; start: of the first block that is not a hole */
	uint32_t fragment, offset; /* the index in the fragment table and the offset in that block;
				      or 0xffffffff */
	uint32_t n_blocks, done;   /* blocks of the file, and how many of their sizes are known */
	uint32_t *blocks;          /* their sizes as in the format, 0 for a hole */
	int raw;                   /* store whole blocks uncompressed */
};

/* names holds the lists of blocks. fragments gets an entry for each packed block. */
int squashfs_blocks_new(struct squashfs_file *file, sqfs_compressor_t *compressor,
	sqfs_frag_table_t *fragments, size_t block_size, struct layer_names *names,
	struct squashfs_blocks **ret, struct mlr_error *err);
void squashfs_blocks_free(struct squashfs_blocks *b);

/* Write one file: begin, then its data in order of offset, where gaps are holes, then end.
 * data->raw says whether to store whole blocks uncompressed; the other fields are complete when
 * squashfs_blocks_finish() returns. */
int squashfs_blocks_begin(struct squashfs_blocks *b, struct squashfs_data *data, uint64_t size,
	struct mlr_error *err);
int squashfs_blocks_data(struct squashfs_blocks *b, const void *buf, size_t len, uint64_t offset,
	struct mlr_error *err);
int squashfs_blocks_end(struct squashfs_blocks *b, struct mlr_error *err);

/* After the last file, wait until all is written. */
int squashfs_blocks_finish(struct squashfs_blocks *b, struct mlr_error *err);
