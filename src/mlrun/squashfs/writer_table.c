#include "squashfs/writer_table.h"

#include "squashfs/blocks.h"

#include <sqfs/block.h>
#include <sqfs/dir_writer.h>
#include <sqfs/error.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/meta_writer.h>

#define PADDING 4096 /* loop devices need whole pages */

struct table {
	struct squashfs_file *file;
	sqfs_meta_writer_t *inodes, *entries;
	sqfs_dir_writer_t *dirs;
	sqfs_id_table_t *ids;
	sqfs_u16 root_id;
	uint32_t n_inodes;
};

uint32_t squashfs_table_time(int64_t seconds)
{
	return seconds < 0 ? 0 : seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

static void table_done(struct table *t)
{
	sqfs_destroy(t->dirs);
	sqfs_destroy(t->entries);
	sqfs_destroy(t->inodes);
	sqfs_destroy(t->ids);
}

static int by_name(const void *a, const void *b)
{
	const struct layer_name *x = *(struct layer_name *const *)a,
				*y = *(struct layer_name *const *)b;

	return strcmp(x->name, y->name);
}

/* Directories list their names in byte order. */
static void sort_children(struct layer_name *dir)
{
	auto_free struct layer_name **v = NULL;
	size_t n = 0;

	for (const struct layer_name *c = dir->child; c; c = c->next)
		n++;
	if (n < 2)
		return;
	v = xreallocarray(NULL, n, sizeof(struct layer_name *));
	n = 0;
	for (struct layer_name *c = dir->child; c; c = c->next)
		v[n++] = c;
	qsort(v, n, sizeof(struct layer_name *), by_name);
	for (size_t i = 0; i < n; i++) {
		v[i]->prev = i > 0 ? v[i - 1] : NULL;
		v[i]->next = i + 1 < n ? v[i + 1] : NULL;
	}
	dir->child = v[0];
	dir->last = v[n - 1];
}

/* Count names and number inodes, consecutively within a directory. A directory's links are its
 * name, its "." and every ".." below it. */
static void number(struct table *t, struct layer_name *dir)
{
	sort_children(dir);
	dir->inode->nlink = 2;
	for (struct layer_name *c = dir->child; c; c = c->next) {
		if (!c->inode->number)
			c->inode->number = ++t->n_inodes;
		if (layer_names_kind(c) == LAYER_DIR)
			dir->inode->nlink++;
		else
			c->inode->nlink++;
	}
	for (struct layer_name *c = dir->child; c; c = c->next)
		if (layer_names_kind(c) == LAYER_DIR)
			number(t, c);
}

static mode_t mode_of(const struct layer_inode *i)
{
	static const mode_t types[] = { [LAYER_DIR] = S_IFDIR,
		[LAYER_FILE] = S_IFREG,
		[LAYER_SYMLINK] = S_IFLNK,
		[LAYER_FIFO] = S_IFIFO };

	return types[i->kind] | (i->mode & 01777);
}

static void fill_base(
	const struct table *t, const struct layer_inode *from, sqfs_inode_generic_t *to)
{
	to->base.mode = (sqfs_u16)mode_of(from);
	if (from->kind == LAYER_SYMLINK)
		to->base.mode = S_IFLNK | 0777;
	to->base.uid_idx = to->base.gid_idx = t->root_id;
	to->base.mod_time = squashfs_table_time(from->mtime);
	to->base.inode_number = from->number;
}

static void fill_file(const struct layer_inode *from, sqfs_inode_generic_t *to)
{
	const struct squashfs_data *d = from->data;

	to->base.type = SQFS_INODE_EXT_FILE;
	to->data.file_ext.blocks_start = d->start;
	to->data.file_ext.file_size = d->size;
	to->data.file_ext.sparse = d->sparse;
	to->data.file_ext.nlink = from->nlink;
	to->data.file_ext.fragment_idx = d->fragment;
	to->data.file_ext.fragment_offset = d->offset;
	to->data.file_ext.xattr_idx = from->xattr;
	sqfs_inode_make_basic(to); /* if that can hold it */
}

static int fill_other(const struct layer_inode *from, sqfs_inode_generic_t *to)
{
	if (from->kind == LAYER_FIFO) {
		to->base.type = SQFS_INODE_FIFO;
		to->data.ipc.nlink = from->nlink;
	} else {
		to->base.type = SQFS_INODE_SLINK;
		to->data.slink.nlink = from->nlink;
		to->data.slink.target_size = (sqfs_u32)strlen(from->target);
		memcpy(to->extra, from->target, to->data.slink.target_size);
	}
	return sqfs_inode_set_xattr_index(to, from->xattr);
}

static int write_inode(
	const struct table *t, struct layer_inode *from, const sqfs_inode_generic_t *inode)
{
	sqfs_u32 offset;
	sqfs_u64 block;

	sqfs_meta_writer_get_position(t->inodes, &block, &offset);
	from->ref = block << 16 | offset;
	return sqfs_meta_writer_write_inode(t->inodes, inode);
}

/* Write the list of a file's blocks, which follows its inode. libsquashfs would take as much stack
 * as the list is long. */
static int write_blocks(const struct table *t, const struct squashfs_data *d)
{
	sqfs_u32 le[256];
	int r = 0;

	for (uint32_t i = 0; i < d->n_blocks && r == 0;) {
		uint32_t n = 0;

		while (n < ARRAY_LEN(le) && i < d->n_blocks)
			le[n++] = htole32(d->blocks[i++]);
		r = sqfs_meta_writer_append(t->inodes, le, n * sizeof(*le));
	}
	return r;
}

static int write_leaf(const struct table *t, struct layer_inode *from)
{
	size_t extra = from->kind == LAYER_SYMLINK ? strlen(from->target) : 0;
	auto_free sqfs_inode_generic_t *inode = xcalloc(1, sizeof(*inode) + extra);
	int r = 0;

	fill_base(t, from, inode);
	if (from->kind == LAYER_FILE)
		fill_file(from, inode);
	else
		r = fill_other(from, inode);
	TRY(r);
	TRY(write_inode(t, from, inode));
	return from->kind == LAYER_FILE ? write_blocks(t, from->data) : 0;
}

static int write_dir_inode(const struct table *t, struct layer_name *dir, uint32_t parent)
{
	sqfs_inode_generic_t *inode =
		sqfs_dir_writer_create_inode(t->dirs, 0, dir->inode->xattr, parent);
	int r;

	if (!inode)
		return SQFS_ERROR_ALLOC;
	fill_base(t, dir->inode, inode);
	if (inode->base.type == SQFS_INODE_DIR)
		inode->data.dir.nlink = dir->inode->nlink;
	else
		inode->data.dir_ext.nlink = dir->inode->nlink;
	r = write_inode(t, dir->inode, inode);
	sqfs_free(inode);
	return r;
}

/* Write the directories below, then this one's other inodes in a row, its list of names, its
 * inode. */
static int write_dir(const struct table *t, struct layer_name *dir, uint32_t parent)
{
	for (struct layer_name *c = dir->child; c; c = c->next)
		if (layer_names_kind(c) == LAYER_DIR)
			TRY(write_dir(t, c, dir->inode->number));
	for (struct layer_name *c = dir->child; c; c = c->next)
		if (layer_names_kind(c) != LAYER_DIR && c->inode->nlink) {
			TRY(write_leaf(t, c->inode));
			c->inode->nlink = 0; /* written, however many names it has */
		}
	TRY(sqfs_dir_writer_begin(t->dirs, 0));
	for (struct layer_name *c = dir->child; c; c = c->next)
		TRY(sqfs_dir_writer_add_entry(t->dirs, c->name, c->inode->number, c->inode->ref,
			(sqfs_u16)mode_of(c->inode)));
	TRY(sqfs_dir_writer_end(t->dirs));
	return write_dir_inode(t, dir, parent);
}

static int start(struct table *t, sqfs_compressor_t *compressor)
{
	t->ids = sqfs_id_table_create(0);
	t->inodes = sqfs_meta_writer_create(&t->file->base, compressor, 0);
	t->entries = sqfs_meta_writer_create(
		&t->file->base, compressor, SQFS_META_WRITER_KEEP_IN_MEMORY);
	t->dirs = t->entries ? sqfs_dir_writer_create(t->entries, 0) : NULL;
	if (!t->ids || !t->inodes || !t->dirs)
		return SQFS_ERROR_ALLOC;
	return sqfs_id_table_id_to_index(t->ids, 0, &t->root_id);
}

static int write_tree(struct table *t, struct layer_name *top, sqfs_super_t *super)
{
	super->inode_table_start = t->file->size;
	top->inode->number = ++t->n_inodes;
	number(t, top);
	super->inode_count = t->n_inodes;
	TRY(write_dir(t, top, t->n_inodes + 1)); /* the parent of "/" is no inode of the image */
	TRY(sqfs_meta_writer_flush(t->inodes));
	TRY(sqfs_meta_writer_flush(t->entries));
	super->root_inode_ref = top->inode->ref;
	super->directory_table_start = t->file->size;
	return sqfs_meta_write_write_to_file(t->entries);
}

static int pad(struct squashfs_file *file)
{
	static const char zeros[PADDING];
	size_t over = (size_t)(file->size % PADDING);

	return over ? file->base.write_at(&file->base, file->size, zeros, PADDING - over) : 0;
}

int squashfs_table_write(struct squashfs_file *file, sqfs_compressor_t *compressor,
	sqfs_super_t *super, sqfs_frag_table_t *fragments, sqfs_xattr_writer_t *xattrs,
	struct layer_name *top, struct mlr_error *err)
{
	auto_call(table_done) struct table t = { .file = file };
	int r = start(&t, compressor);

	if (r == 0)
		r = write_tree(&t, top, super);
	if (r == 0)
		r = sqfs_frag_table_write(fragments, &file->base, super, compressor);
	super->flags &= (sqfs_u16)~SQFS_FLAG_ALWAYS_FRAGMENTS;
	if (r == 0)
		r = sqfs_id_table_write(t.ids, &file->base, super, compressor);
	if (r == 0)
		r = sqfs_xattr_writer_flush(xattrs, &file->base, super, compressor);
	super->bytes_used = file->size;
	if (r == 0)
		r = sqfs_super_write(super, &file->base);
	if (r == 0)
		r = pad(file);
	return r == 0
		? 0
		: squashfs_file_fail(file, r, "write the image's inodes and directories", err);
}
