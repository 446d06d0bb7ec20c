#include "squashfs/writer.h"

#include "layer/changes.h"
#include "squashfs/blocks.h"
#include "squashfs/writer_table.h"

#include <fnmatch.h>
#include <sqfs/block.h>
#include <sqfs/compressor.h>
#include <sqfs/error.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>

/*
 * A block has the size of the kernel's largest FUSE request; blocks of twice the size save 3 %.
 * zstd's fastest level: a whole pull takes 0.9 s of CPU with it and 1.25 s with level 3, which
 * saves 4 to 7 % (mlrun pull of 63 MB gzip, and of 114,000 files).
 */
#define BLOCK_SIZE   (128u << 10)
#define LEVEL        1
#define GZIP_LEVEL   6
#define RAW_MAX      (4u << 20) /* bytes of a file that may be stored uncompressed */
#define NAMES_MEMORY ((size_t)1 << 30)

struct squashfs_writer {
	struct squashfs_file file;
	sqfs_compressor_t *compressor;
	sqfs_super_t super;
	sqfs_frag_table_t *fragments;
	sqfs_xattr_writer_t *xattrs;
	struct squashfs_blocks *blocks;
	struct layer_names *names;
	int64_t mtime;

	struct layer_changes *layers; /* the topmost first */
	size_t n_layers, max_layers;
	struct layer_name *top; /* of the whole image, once applied */

	/* The layer being read. */
	size_t current;
	uint32_t ordinal;             /* regular files read so far */
	struct squashfs_data *taking; /* data() writes here; NULL: data is skipped */
	uint64_t passed_over, taken;

	/* The upper layers' directories that lie over a directory of this layer. */
	const struct layer_name *over;
	const struct layer_name **above;
	size_t n_above;
	enum { CLEAR, COVERED, UNSURE } over_is;

	/* Files whose data was skipped but is needed, in order of layer and ordinal. */
	struct layer_inode **lacking;
	size_t n_lacking, room_lacking;
	int again; /* the layer is read again for them */
};

int squashfs_writer_available(void)
{
	return 1;
}

static int start_file(struct squashfs_writer *s, SQFS_COMPRESSOR how, struct mlr_error *err)
{
	sqfs_compressor_config_t cfg;
	int r = sqfs_compressor_config_init(&cfg, how, BLOCK_SIZE, 0);

	cfg.level = how == SQFS_COMP_GZIP ? GZIP_LEVEL : LEVEL;
	if (r == 0)
		r = sqfs_compressor_create(&cfg, &s->compressor);
	if (r == SQFS_ERROR_UNSUPPORTED)
		return mlr_fail(err, ENOTSUP, "this libsquashfs was built without %s",
			sqfs_compressor_name_from_id(how));
	if (r == 0)
		r = sqfs_super_init(&s->super, BLOCK_SIZE, squashfs_table_time(s->mtime), how);
	if (r == 0)
		r = sqfs_super_write(&s->super, &s->file.base);
	if (r == 0)
		r = s->compressor->write_options(s->compressor, &s->file.base);
	if (r < 0)
		return squashfs_file_fail(&s->file, r, "begin a squashfs image", err);
	if (r > 0)
		s->super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
	return 0;
}

static int start_tables(struct squashfs_writer *s, struct mlr_error *err)
{
	s->fragments = sqfs_frag_table_create(0);
	s->xattrs = sqfs_xattr_writer_create(0);
	if (!s->fragments || !s->xattrs)
		return squashfs_file_fail(
			&s->file, SQFS_ERROR_ALLOC, "begin a squashfs image", err);
	return squashfs_blocks_new(
		&s->file, s->compressor, s->fragments, BLOCK_SIZE, s->names, &s->blocks, err);
}

int squashfs_writer_new(int fd, enum oci_compression how, size_t layers, int64_t mtime,
	struct squashfs_writer **ret, struct mlr_error *err)
{
	struct squashfs_writer *s = xcalloc(1, sizeof(*s));
	int r;

	squashfs_file_init(&s->file, fd);
	s->mtime = mtime;
	s->names = layer_names_new(NAMES_MEMORY);
	s->layers = xcalloc(layers, sizeof(*s->layers));
	s->max_layers = layers;
	s->above = xcalloc(layers, sizeof(*s->above));
	r = start_file(s, how == OCI_GZIP ? SQFS_COMP_GZIP : SQFS_COMP_ZSTD, err);
	if (r == 0)
		r = start_tables(s, err);
	if (r < 0) {
		squashfs_writer_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void squashfs_writer_free(struct squashfs_writer *s)
{
	if (!s)
		return;
	squashfs_blocks_free(s->blocks); /* first: its threads use the rest */
	sqfs_destroy(s->xattrs);
	sqfs_destroy(s->fragments);
	sqfs_destroy(s->compressor);
	for (size_t i = 0; i < s->n_layers; i++)
		layer_changes_done(&s->layers[i]);
	free(s->layers);
	free(s->above);
	free(s->lacking);
	layer_names_free(s->names);
	free(s);
}

static struct layer_changes *current(struct squashfs_writer *s)
{
	return &s->layers[s->current];
}

int squashfs_writer_layer(struct squashfs_writer *s, struct mlr_error *err)
{
	if (s->n_layers == s->max_layers)
		return mlr_fail(err, EINVAL, "more layers than the image has");
	s->current = s->n_layers++;
	s->ordinal = 0;
	s->over = NULL;
	return layer_changes_init(current(s), s->names, s->current, err);
}

/* --- which data are hidden ---------------------------------------------------- */

/* Go down one directory: keep the upper layers that have it, too. */
static void narrow(struct squashfs_writer *s, const struct layer_name *dir)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n_above; i++) {
		struct layer_name *n = layer_names_find(s->names, s->above[i], dir->name, dir->len);

		if (!n)
			continue;
		if (layer_names_kind(n) != LAYER_DIR || n->opaque)
			s->over_is = COVERED;
		s->above[kept++] = n;
	}
	s->n_above = kept;
}

/*
 * Find the upper layers' directories over one of this layer's. Below a directory that this layer
 * has not named (so far) nothing is certain: a lower layer's symlink may lead it elsewhere. All
 * others are where their paths say, and so is what an upper layer has at such a path, named or not.
 */
static void look_above(struct squashfs_writer *s, const struct layer_name *dir)
{
	if (!dir->parent) {
		s->over_is = CLEAR;
		s->n_above = s->current;
		for (size_t i = 0; i < s->current; i++) {
			s->above[i] = s->layers[i].top;
			if (s->above[i]->opaque)
				s->over_is = COVERED;
		}
		return;
	}
	look_above(s, dir->parent);
	if (dir->implied)
		s->over_is = UNSURE;
	else if (s->over_is == CLEAR)
		narrow(s, dir);
}

/* Is this entry certainly hidden, whatever names the upper layers leave visible? */
static int is_hidden(struct squashfs_writer *s, const struct layer_name *n)
{
	if (s->over != n->parent) {
		look_above(s, n->parent);
		s->over = n->parent;
	}
	if (s->over_is != CLEAR)
		return s->over_is == COVERED;
	for (size_t i = 0; i < s->n_above; i++)
		if (layer_names_find(s->names, s->above[i], n->name, n->len))
			return 1;
	return 0;
}

/* --- members ------------------------------------------------------------------ */

static int put_xattrs(struct squashfs_writer *s, const struct layer_member *m, uint32_t *ret,
	struct mlr_error *err)
{
	int r = 0;

	*ret = LAYER_NO_XATTR;
	if (m->n_xattrs == 0)
		return 0;
	r = sqfs_xattr_writer_begin(s->xattrs, 0);
	for (size_t i = 0; r == 0 && i < m->n_xattrs; i++)
		r = sqfs_xattr_writer_add(
			s->xattrs, m->xattrs[i].name, m->xattrs[i].value, m->xattrs[i].size);
	if (r == 0)
		r = sqfs_xattr_writer_end(s->xattrs, ret);
	return r == 0 ? 0 : squashfs_file_fail(&s->file, r, "keep its xattrs", err);
}

static int by_place(const void *a, const void *b)
{
	const struct layer_inode *x = *(struct layer_inode *const *)a,
				 *y = *(struct layer_inode *const *)b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

/*
 * Store uncompressed what every start reads: the loader, the C library, the usual shells.
 * Decompressing them (2 MB at 0.7 GB/s) would take longer than everything else in a start from a
 * squashfs file.
 */
static int is_for_every_start(const struct layer_member *m)
{
	static const char *const names[] = { "ld-linux*.so*", "ld-2.*.so", "ld-musl-*.so*",
		"ld64.so*", "libc.so.6", "libc-2.*.so", "busybox", "bash", "dash",
		"\\[" /* busybox, too: the first of its hard-linked names */ };
	const char *name = path_base(m->path);

	for (size_t i = 0; m->size <= RAW_MAX && i < ARRAY_LEN(names); i++)
		if (fnmatch(names[i], name, 0) == 0)
			return 1;
	return 0;
}

/* A file of a layer that is read again: does it lack its data? */
static int on_file_again(struct squashfs_writer *s, struct mlr_error *err)
{
	uint32_t ordinal = s->ordinal++;

	struct layer_inode key = { .layer = (uint32_t)s->current, .ordinal = ordinal },
			   *want = &key, **found;

	if (s->n_lacking == 0)
		return 0;
	found = bsearch(&want, s->lacking, s->n_lacking, sizeof(*s->lacking), by_place);
	if (!found || !(*found)->skipped)
		return 0;
	(*found)->skipped = 0;
	s->taking = (*found)->data;
	return squashfs_blocks_begin(s->blocks, s->taking, s->taking->size, err);
}

static int on_file(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct squashfs_writer *s = ctx;
	struct squashfs_data *data;
	struct layer_name *n;
	uint32_t xattr;

	s->taking = NULL;
	if (s->again)
		return on_file_again(s, err);
	TRY(put_xattrs(s, m, &xattr, err));
	data = layer_names_alloc(s->names, sizeof(*data), err);
	if (!data)
		return layer_names_failed(err);
	data->size = m->size;
	data->raw = is_for_every_start(m);
	TRY(layer_changes_add(current(s), m, xattr, &n, err));
	n->inode->data = data;
	n->inode->ordinal = s->ordinal++;
	if (m->size > 0 && is_hidden(s, n)) {
		n->inode->skipped = 1;
		s->passed_over += m->size;
		return 0;
	}
	s->taken += m->size;
	s->taking = data;
	return squashfs_blocks_begin(s->blocks, data, m->size, err);
}

static int on_data(void *ctx, const void *buf, size_t len, uint64_t offset, struct mlr_error *err)
{
	struct squashfs_writer *s = ctx;

	return s->taking ? squashfs_blocks_data(s->blocks, buf, len, offset, err) : 0;
}

static int on_file_end(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct squashfs_writer *s = ctx;
	int taking = s->taking != NULL;

	s->taking = NULL;
	return taking ? squashfs_blocks_end(s->blocks, err) : 0;
}

static int on_name(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct squashfs_writer *s = ctx;
	uint32_t xattr;

	if (s->again)
		return 0;
	TRY(put_xattrs(s, m, &xattr, err));
	if (m->kind == LAYER_DIR)
		s->over = NULL; /* this may be its first mention */
	return layer_changes_add(current(s), m, xattr, NULL, err);
}

const struct layer_sink squashfs_writer_sink = {
	.file = on_file,
	.data = on_data,
	.file_end = on_file_end,
	.name = on_name,
};

/* --- the whole ---------------------------------------------------------------- */

static void collect_lacking(struct squashfs_writer *s, const struct layer_name *dir)
{
	for (const struct layer_name *n = dir->child; n; n = n->next) {
		if (layer_names_kind(n) == LAYER_DIR)
			collect_lacking(s, n);
		if (layer_names_kind(n) != LAYER_FILE || !n->inode->skipped)
			continue; /* hard links may appear twice, which is harmless */
		if (s->n_lacking == s->room_lacking) {
			s->room_lacking = s->room_lacking ? 2 * s->room_lacking : 64;
			s->lacking =
				xreallocarray(s->lacking, s->room_lacking, sizeof(*s->lacking));
		}
		s->lacking[s->n_lacking++] = n->inode;
	}
}

int squashfs_writer_apply(struct squashfs_writer *s, struct mlr_error *err)
{
	s->top = layer_names_top(s->names, err);
	if (!s->top)
		return layer_names_failed(err);
	for (size_t i = s->n_layers; i-- > 0;)
		TRY(layer_changes_apply(&s->layers[i], s->top, err));
	collect_lacking(s, s->top);
	if (s->n_lacking)
		qsort(s->lacking, s->n_lacking, sizeof(*s->lacking), by_place);
	mlr_debug(
		"squashfs: %llu bytes of files kept, %llu passed over, %zu files of those lacking",
		(unsigned long long)s->taken, (unsigned long long)s->passed_over, s->n_lacking);
	return 0;
}

int squashfs_writer_lacks(const struct squashfs_writer *s, size_t i)
{
	for (size_t k = 0; k < s->n_lacking; k++)
		if (s->lacking[k]->layer == i && s->lacking[k]->skipped)
			return 1;
	return 0;
}

int squashfs_writer_layer_again(struct squashfs_writer *s, size_t i, struct mlr_error *err)
{
	if (!s->top || i >= s->n_layers)
		return mlr_fail(err, EINVAL, "layer %zu cannot be read again", i);
	s->again = 1;
	s->current = i;
	s->ordinal = 0;
	return 0;
}

int squashfs_writer_finish(struct squashfs_writer *s, struct mlr_error *err)
{
	for (size_t i = 0; i < s->n_lacking; i++)
		if (s->lacking[i]->skipped)
			return mlr_fail(err, EPROTO,
				"layer %zu was not the same when it was read a second time",
				(size_t)s->lacking[i]->layer);
	TRY(squashfs_blocks_finish(s->blocks, err));
	return squashfs_table_write(
		&s->file, s->compressor, &s->super, s->fragments, s->xattrs, s->top, err);
}
