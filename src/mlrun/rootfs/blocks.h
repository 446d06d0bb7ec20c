/*
 * The data part of a squashfs image: files cut into blocks, blocks compressed by several threads
 * and written in the order of coming, the files that are smaller than a block packed together
 * ("fragments"). So the bytes do not depend on the number of threads.
 *
 * libsquashfs's block processor compresses; what it would do beyond that (a list of blocks a file,
 * the packing, looking for files that are alike) is done here or not at all, so that a hole costs
 * nothing and memory is bounded.
 */
#ifndef MLR_ROOTFS_BLOCKS_H
#define MLR_ROOTFS_BLOCKS_H

#include "base/error.h"
#include "rootfs/names.h"
#include "rootfs/squash_file.h"

#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>

struct blocks;

/* names is where the lists of blocks are kept. fragments gets an entry a packed block. */
int blocks_new(struct squash_file *file, sqfs_compressor_t *compressor,
	sqfs_frag_table_t *fragments, size_t block_size, struct names *names, struct blocks **ret,
	struct mlr_error *err);
void blocks_free(struct blocks *b);

/* One file: begin, then its data in rising order of offset, what is left out being holes, then end.
 * data->raw says whether to store whole blocks as they are; the rest is filled in by the time
 * blocks_finish() has returned. */
int blocks_begin(struct blocks *b, struct names_data *data, uint64_t size, struct mlr_error *err);
int blocks_data(
	struct blocks *b, const void *buf, size_t len, uint64_t offset, struct mlr_error *err);
int blocks_end(struct blocks *b, struct mlr_error *err);

/* After the last file: wait until all is written. */
int blocks_finish(struct blocks *b, struct mlr_error *err);

#endif
