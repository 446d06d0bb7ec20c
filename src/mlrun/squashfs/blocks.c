#include "squashfs/blocks.h"

#include "base/machine.h"

#include <sqfs/block.h>
#include <sqfs/block_processor.h>
#include <sqfs/block_writer.h>
#include <sqfs/error.h>

#define WORKERS_MAX 16
#define STORED_RAW  (1u << 24)  /* in a block's size: not compressed */
#define PENDING     0xffffffffu /* in a file's list: the block is not written yet */
#define NO_FRAGMENT 0xffffffffu

struct squashfs_blocks {
	sqfs_block_writer_t writer; /* must be first: libsquashfs has a pointer to it */
	struct squashfs_file *file;
	sqfs_frag_table_t *fragments;
	sqfs_block_processor_t *processor;
	struct layer_names *names;
	size_t size; /* a block's */

	struct squashfs_data *data; /* the file being written, */
	uint64_t at;                /* written up to this byte, */
	char *block;                /* and its bytes since the last whole block */
	char *packed;               /* small files, one after another */
	size_t n_packed;
	uint32_t packed_index, packed_done; /* fragments: the current one, and the written ones */
	int has_packed;
	int finished, given_up; /* finished: all is written; given_up: discard the rest */
	int broken;             /* compressing failed: a wait for blocks would never end */
};

static int cpus(void)
{
	size_t n = processors_count();

	return n > WORKERS_MAX ? WORKERS_MAX : (int)n;
}

/* Called in the order in which blocks were submitted, in the submitting thread. user is the block's
 * file, or NULL for packed blocks. */
static int write_block(sqfs_block_writer_t *w, void *user, sqfs_u32 size, sqfs_u32 checksum,
	sqfs_u32 flags, const sqfs_u8 *buf, sqfs_u64 *location)
{
	struct squashfs_blocks *b = (struct squashfs_blocks *)w;
	sqfs_u32 stored = size | (flags & SQFS_BLK_IS_COMPRESSED ? 0 : STORED_RAW);
	struct squashfs_data *data = user;
	int r;

	*location = b->file->size;
	if (b->given_up)
		return 0;
	if (data) {
		while (data->blocks[data->done] != PENDING) /* holes */
			data->done++;
		data->blocks[data->done++] = flags & SQFS_BLK_IS_SPARSE ? 0 : stored;
		if (flags & SQFS_BLK_IS_SPARSE) {
			data->sparse += size;
			return 0;
		}
		if (!data->start)
			data->start = *location;
	} else {
		r = sqfs_frag_table_set(b->fragments, b->packed_done++, *location, stored);
		if (r != 0)
			return r;
	}
	return b->file->base.write_at(&b->file->base, *location, buf, size);
}

static sqfs_u64 block_count(const sqfs_block_writer_t *w)
{
	return 0; /* statistics, which are not used */
}

static void writer_destroy(sqfs_object_t *o)
{
}

static int start_processor(
	struct squashfs_blocks *b, sqfs_compressor_t *compressor, struct mlr_error *err)
{
	unsigned workers = (unsigned)cpus();
	sqfs_block_processor_desc_t d = {
		.size = sizeof(d),
		.max_block_size = (sqfs_u32)b->size,
		.num_workers = workers,
		.max_backlog = 4 * workers + 4,
		.cmp = compressor,
		.wr = &b->writer,
	};
	int r = sqfs_block_processor_create_ex(&d, &b->processor);

	return r == 0 ? 0 : squashfs_file_fail(b->file, r, "start threads to compress with", err);
}

int squashfs_blocks_new(struct squashfs_file *file, sqfs_compressor_t *compressor,
	sqfs_frag_table_t *fragments, size_t block_size, struct layer_names *names,
	struct squashfs_blocks **ret, struct mlr_error *err)
{
	struct squashfs_blocks *b = xcalloc(1, sizeof(*b));
	int r;

	b->writer.base.destroy = writer_destroy;
	b->writer.write_data_block = write_block;
	b->writer.get_block_count = block_count;
	b->file = file;
	b->fragments = fragments;
	b->names = names;
	b->size = block_size;
	b->block = xmalloc(block_size);
	b->packed = xmalloc(block_size);
	r = start_processor(b, compressor, err);
	if (r < 0) {
		squashfs_blocks_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

void squashfs_blocks_free(struct squashfs_blocks *b)
{
	if (!b)
		return;
	if (b->processor && !b->finished && !b->broken) {
		/* libsquashfs does not free blocks still in work. */
		b->given_up = 1;
		sqfs_block_processor_finish(b->processor);
	}
	if (b->processor)
		sqfs_destroy(b->processor);
	free(b->block);
	free(b->packed);
	free(b);
}

static int submit(struct squashfs_blocks *b, void *user, const void *buf, size_t len,
	sqfs_u32 flags, struct mlr_error *err)
{
	int r = sqfs_block_processor_submit_block(
		b->processor, user, flags | SQFS_BLK_DONT_HASH, buf, len);

	b->broken = r != 0 && !b->file->error;
	return r == 0 ? 0 : squashfs_file_fail(b->file, r, "write data", err);
}

static int flush_packed(struct squashfs_blocks *b, struct mlr_error *err)
{
	size_t n = b->n_packed;

	if (!b->has_packed)
		return 0;
	b->has_packed = 0;
	b->n_packed = 0;
	return submit(b, NULL, b->packed, n, SQFS_BLK_IGNORE_SPARSE, err);
}

/* Reserve a small file's place in the packed block. Its bytes follow. */
static int begin_packed(
	struct squashfs_blocks *b, struct squashfs_data *data, struct mlr_error *err)
{
	int r;

	if (b->has_packed && b->n_packed + data->size > b->size)
		TRY(flush_packed(b, err));
	if (!b->has_packed) {
		r = sqfs_frag_table_append(b->fragments, 0, 0, &b->packed_index);
		if (r != 0)
			return squashfs_file_fail(b->file, r, "note a fragment", err);
		b->has_packed = 1;
	}
	data->fragment = b->packed_index;
	data->offset = (uint32_t)b->n_packed;
	memset(b->packed + b->n_packed, 0, data->size);
	b->n_packed += data->size;
	return 0;
}

int squashfs_blocks_begin(
	struct squashfs_blocks *b, struct squashfs_data *data, uint64_t size, struct mlr_error *err)
{
	uint64_t n = (size + b->size - 1) / b->size;
	int raw = data->raw;

	memset(data, 0, sizeof(*data));
	data->raw = raw;
	data->size = size;
	data->fragment = NO_FRAGMENT;
	data->offset = NO_FRAGMENT;
	b->data = data;
	b->at = 0;
	if (size == 0)
		return 0;
	if (size < b->size)
		return begin_packed(b, data, err);
	if (n > UINT32_MAX / sizeof(uint32_t))
		return mlr_fail(err, EFBIG, "a file of %llu bytes", (unsigned long long)size);
	data->blocks = layer_names_alloc(b->names, n * sizeof(uint32_t), err);
	if (!data->blocks)
		return err ? -err->code : -ENOMEM;
	data->n_blocks = (uint32_t)n;
	return 0;
}

/* The length of the file's block that holds this offset. */
static size_t length_at(const struct squashfs_blocks *b, uint64_t offset)
{
	uint64_t left = b->data->size - offset / b->size * b->size;

	return left < b->size ? (size_t)left : b->size;
}

/* Submit the whole block at b->at, which is in buf. */
static int submit_at(struct squashfs_blocks *b, uint64_t at, const char *buf, struct mlr_error *err)
{
	b->data->blocks[at / b->size] = PENDING;
	return submit(
		b, b->data, buf, length_at(b, at), b->data->raw ? SQFS_BLK_DONT_COMPRESS : 0, err);
}

/* Advance to offset: the gap is a hole, whose whole blocks are not even submitted. */
static int skip_to(struct squashfs_blocks *b, uint64_t offset, struct mlr_error *err)
{
	uint64_t begin = b->at / b->size * b->size;
	size_t have = (size_t)(b->at - begin), len;

	if (offset == b->at)
		return 0;
	if (have > 0) {
		len = length_at(b, begin);
		if (offset < begin + len) {
			memset(b->block + have, 0, (size_t)(offset - b->at));
			b->at = offset;
			return 0;
		}
		memset(b->block + have, 0, len - have);
		b->at = begin + len;
		TRY(submit_at(b, begin, b->block, err));
	}
	begin = offset / b->size * b->size;
	if (offset == b->data->size)
		begin = offset;
	b->data->sparse += begin - b->at;
	memset(b->block, 0, (size_t)(offset - begin));
	b->at = offset;
	return 0;
}

static int append(struct squashfs_blocks *b, const char *buf, size_t len, struct mlr_error *err)
{
	while (len > 0) {
		uint64_t begin = b->at / b->size * b->size;
		size_t have = (size_t)(b->at - begin), whole = length_at(b, begin),
		       n = whole - have < len ? whole - have : len;
		const char *from = buf;

		if (n < whole) { /* a whole block needs no copy */
			memcpy(b->block + have, buf, n);
			from = b->block;
		}
		b->at += n;
		buf += n;
		len -= n;
		if (have + n < whole)
			break;
		TRY(submit_at(b, begin, from, err));
	}
	return 0;
}

int squashfs_blocks_data(struct squashfs_blocks *b, const void *buf, size_t len, uint64_t offset,
	struct mlr_error *err)
{
	struct squashfs_data *data = b->data;

	if (offset < b->at || len > data->size || offset > data->size - len)
		return mlr_fail(err, EPROTO, "data beyond its size");
	if (data->fragment != NO_FRAGMENT) {
		memcpy(b->packed + data->offset + offset, buf, len);
		b->at = offset + len;
		return 0;
	}
	TRY(skip_to(b, offset, err));
	return append(b, buf, len, err);
}

int squashfs_blocks_end(struct squashfs_blocks *b, struct mlr_error *err)
{
	int r = b->data->fragment == NO_FRAGMENT ? skip_to(b, b->data->size, err) : 0;

	b->data = NULL;
	return r;
}

int squashfs_blocks_finish(struct squashfs_blocks *b, struct mlr_error *err)
{
	int r;

	TRY(flush_packed(b, err));
	r = sqfs_block_processor_finish(b->processor);
	b->finished = r == 0;
	b->broken = r != 0 && !b->file->error;
	return r == 0 ? 0 : squashfs_file_fail(b->file, r, "write data", err);
}
