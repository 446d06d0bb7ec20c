#include "squashfs/server_handle.h"

#define META_BLOCKS       128 /* of 8 KiB; libsquashfuse's own 8 are too few for a deep tree */
#define EMPTY_DIR         3   /* the format's size of an empty directory */
#define FRAGMENTS_A_BLOCK (8192 / sizeof(struct squashfs_fragment_entry))
#define STEP_BLOCKS       4096        /* at most, of a file whose inode is skipped */
#define EXPECT_MAX        (64u << 20) /* bytes of metadata to read ahead */
#define METADATA_MIN      3 /* bytes: a metadata block's header and some compressed data */
#define METADATA_ENTRIES  (8192 / sizeof(sqfs_blocklist_entry))

/* The image's bytes in the file: a SIF file has others, too. One for the process, since
 * libsquashfuse's reads bring nothing but a descriptor. */
static uint64_t part_at, part_size;

/* Take the place of libsquashfuse's only function that reads, so that neither it nor this file gets
 * a byte from outside the image, whatever the image's offsets say. */
ssize_t sqfs_pread(sqfs_fd_t fd, void *buf, size_t count, sqfs_off_t off);
ssize_t sqfs_pread(sqfs_fd_t fd, void *buf, size_t count, sqfs_off_t off)
{
	uint64_t at = (uint64_t)off;

	if (at >= part_size)
		return 0;
	if (count > part_size - at)
		count = (size_t)(part_size - at);
	return pread(fd, buf, count, (off_t)(part_at + at));
}

/* The longest possible list of blocks: lists are part of the inode table, which fits into the file.
 * libsquashfuse allocates memory by the file size that an inode claims. */
static uint64_t list_blocks_max(const sqfs *fs)
{
	const struct squashfs_super_block *sb = &fs->sb;
	uint64_t table = sb->directory_table_start > sb->inode_table_start
		? sb->directory_table_start - sb->inode_table_start
		: 0;

	return (table > part_size ? part_size : table) / METADATA_MIN + 1;
}

/* Enlarge a cache of libsquashfuse's. Keeps the old one if that fails. */
static void grow(sqfs_cache *cache, size_t blocks)
{
	sqfs_cache bigger;

	if (sqfs_block_cache_init(&bigger, blocks) != SQFS_OK)
		return;
	sqfs_cache_destroy(cache);
	*cache = bigger;
}

/* The name of a squashfs compression number; libsquashfuse knows only those that it was built
 * with. */
static const char *compression_name(const sqfs *fs)
{
	static const char *const names[] = { "none", "gzip", "lzma", "lzo", "xz", "lz4", "zstd" };

	return fs->sb.compression < ARRAY_LEN(names) ? names[fs->sb.compression]
						     : "an unknown method";
}

int image_open(int fd, const char *part, uid_t uid, gid_t gid, struct image **ret, const char **why,
	const char **compression)
{
	auto_free struct image *im = calloc(1, sizeof(*im));
	sqfs_err r;

	*why = "no memory";
	*compression = NULL;
	if (!im)
		return -ENOMEM;
	im->uid = uid;
	im->gid = gid;
	part_at = 0;
	part_size = (uint64_t)lseek(fd, 0, SEEK_END);
	if (*part && sscanf(part, "%" SCNu64 "+%" SCNu64, &part_at, &part_size) != 2)
		part_size = 0;
	r = sqfs_init(&im->fs, fd, 0);
	if (r != SQFS_OK) {
		*why = r == SQFS_BADFORMAT     ? "not a squashfs image"
			: r == SQFS_BADVERSION ? "a squashfs image of another version than 4"
			: r == SQFS_BADCOMP    ? "compression"
					       : "a damaged squashfs image";
		if (r == SQFS_BADCOMP)
			*compression = compression_name(&im->fs);
		sqfs_table_destroy(&im->fs.xattr_table); /* as in image_close() */
		return -EPROTO;
	}
	if (im->fs.sb.bytes_used > part_size || im->fs.sb.block_size < 4096 ||
		im->fs.sb.block_size > 1u << 20 || pthread_mutex_init(&im->lock, NULL) != 0) {
		*why = "a damaged squashfs image";
		sqfs_destroy(&im->fs);
		return -EPROTO;
	}
	im->list_blocks_max = list_blocks_max(&im->fs);
	im->has_xattrs = im->fs.sb.xattr_id_table_start != (uint64_t)SQUASHFS_INVALID_BLK;
	grow(&im->fs.md_cache, META_BLOCKS);
	*ret = take_ptr(&im);
	return 0;
}

void image_close(struct image *im)
{
	if (!im)
		return;
	sqfs_table_destroy(&im->fs.xattr_table); /* which sqfs_destroy() 0.1 forgets */
	sqfs_destroy(&im->fs);
	pthread_mutex_destroy(&im->lock);
	free(im);
}

size_t image_block_size(const struct image *im)
{
	return im->fs.sb.block_size;
}

void image_expect_metadata(const struct image *im)
{
	uint64_t from = im->fs.sb.inode_table_start, to = im->fs.sb.bytes_used;

	if (from < to)
		posix_fadvise(im->fs.fd, (off_t)(part_at + from),
			(off_t)(to - from < EXPECT_MAX ? to - from : EXPECT_MAX),
			POSIX_FADV_WILLNEED);
}

/* FUSE's root is 1. No image has an inode at position 1 or 2, since an inode takes 16 bytes. */
static sqfs_inode_id id_of(const sqfs *fs, uint64_t ino)
{
	return ino == IMAGE_ROOT ? fs->sb.root_inode : ino == 2 ? 0 : ino;
}

static uint64_t number_of(const sqfs *fs, sqfs_inode_id id)
{
	return id == fs->sb.root_inode ? IMAGE_ROOT : id == 0 ? 2 : id;
}

int image_is_inside(struct image *im, uint64_t pos, size_t offset)
{
	sqfs_off_t at = (sqfs_off_t)pos;
	sqfs_block *b = NULL;

	/* In libsquashfuse's cache 0 marks a free slot, whose block may have been freed. */
	return pos > 0 && pos <= INT64_MAX && sqfs_md_cache(&im->fs, &at, &b) == SQFS_OK && b &&
		offset < b->size;
}

/* The lock must be held. */
static int get(struct image *im, sqfs_inode_id id, sqfs_inode *ret)
{
	const struct squashfs_super_block *sb = &im->fs.sb;

	if (!image_is_inside(im, sb->inode_table_start + (id >> 16), id & 0xffff) ||
		sqfs_inode_get(&im->fs, ret, id) != SQFS_OK)
		return -EIO;
	if (S_ISDIR(ret->base.mode) && ret->xtra.dir.dir_size > EMPTY_DIR &&
		!image_is_inside(im, sb->directory_table_start + ret->xtra.dir.start_block,
			ret->xtra.dir.offset))
		return -EIO;
	return 0;
}

int image_find(struct image *im, uint64_t ino, sqfs_inode *ret)
{
	return get(im, id_of(&im->fs, ino), ret);
}

static void fill_stat(
	const struct image *im, const sqfs_inode *inode, uint64_t ino, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = ino;
	st->st_mode = inode->base.mode;
	st->st_nlink = (nlink_t)inode->nlink;
	st->st_uid = im->uid;
	st->st_gid = im->gid;
	st->st_mtim.tv_sec = st->st_ctim.tv_sec = st->st_atim.tv_sec = inode->base.mtime;
	st->st_blksize = im->fs.sb.block_size;
	if (S_ISREG(st->st_mode))
		st->st_size = (off_t)inode->xtra.reg.file_size;
	else if (S_ISLNK(st->st_mode))
		st->st_size = (off_t)inode->xtra.symlink_size;
	else if (S_ISDIR(st->st_mode))
		st->st_size = inode->xtra.dir.dir_size;
	st->st_blocks = (st->st_size + 511) / 512;
}

int image_stat(struct image *im, uint64_t ino, struct stat *ret)
{
	sqfs_inode inode;

	HOLD(im);
	TRY(image_find(im, ino, &inode));
	fill_stat(im, &inode, ino, ret);
	return 0;
}

void image_statfs(struct image *im, struct statvfs *ret)
{
	const struct squashfs_super_block *sb = &im->fs.sb;

	*ret = (struct statvfs){ .f_namemax = SQUASHFS_NAME_LEN };
	ret->f_bsize = ret->f_frsize = sb->block_size;
	ret->f_blocks = (sb->bytes_used + sb->block_size - 1) / sb->block_size;
	ret->f_files = sb->inodes;
}

int image_lookup(struct image *im, uint64_t dir, const char *name, struct stat *ret)
{
	sqfs_inode at, inode;
	sqfs_dir_entry entry;
	bool found = false;

	if (strlen(name) > NAME_MAX)
		return -ENAMETOOLONG;

	HOLD(im);
	sqfs_dentry_init(&entry, im->name);
	if (image_find(im, dir, &at) < 0 || !S_ISDIR(at.base.mode) ||
		sqfs_dir_lookup(&im->fs, &at, name, strlen(name), &entry, &found) != SQFS_OK)
		return -EIO;
	if (!found)
		return -ENOENT;
	if (get(im, sqfs_dentry_inode(&entry), &inode) < 0)
		return -EIO;
	fill_stat(im, &inode, number_of(&im->fs, sqfs_dentry_inode(&entry)), ret);
	return 0;
}

int image_readlink(struct image *im, uint64_t ino, char ret[PATH_MAX])
{
	size_t size = PATH_MAX;
	sqfs_inode inode;

	HOLD(im);
	if (image_find(im, ino, &inode) < 0 || !S_ISLNK(inode.base.mode) ||
		inode.xtra.symlink_size >= PATH_MAX ||
		sqfs_readlink(&im->fs, &inode, ret, &size) != SQFS_OK)
		return -EIO;
	return 0;
}

/* Offsets: 0 is ".", 1 is "..", then libsquashfuse's own plus 2. Returns 0 if each() did. */
static int list_dots(off_t *offset, image_each *each, void *arg)
{
	static const char *const dots[] = { ".", ".." };
	struct stat st = { .st_ino = 0xffffffff, .st_mode = S_IFDIR };

	for (; *offset < 2; ++*offset)
		if (!each(arg, dots[*offset], &st, *offset + 1))
			return 0;
	return 1;
}

static int list_rest(
	struct image *im, sqfs_inode *inode, off_t offset, int full, image_each *each, void *arg)
{
	struct stat st = { 0 };
	sqfs_dir_entry entry;
	sqfs_err r = SQFS_OK;
	sqfs_inode child;
	sqfs_dir dir;

	if (sqfs_dir_open(&im->fs, inode, &dir, offset) != SQFS_OK)
		return -EIO;
	sqfs_dentry_init(&entry, im->name);
	while (sqfs_dir_next(&im->fs, &dir, &entry, &r)) {
		sqfs_inode_id id = sqfs_dentry_inode(&entry);

		if (sqfs_dentry_name_size(&entry) > NAME_MAX)
			return -EIO;
		st.st_ino = number_of(&im->fs, id);
		st.st_mode = sqfs_dentry_mode(&entry);
		if (full) {
			if (get(im, id, &child) < 0)
				return -EIO;
			fill_stat(im, &child, st.st_ino, &st);
		}
		if (!each(arg, sqfs_dentry_name(&entry), &st, sqfs_dentry_next_offset(&entry) + 2))
			return 0;
	}
	return r == SQFS_OK ? 0 : -EIO;
}

int image_list(struct image *im, uint64_t ino, off_t offset, int full, image_each *each, void *arg)
{
	sqfs_inode inode;

	HOLD(im);
	if (offset < 0 || image_find(im, ino, &inode) < 0)
		return -EIO;
	if (!S_ISDIR(inode.base.mode))
		return -ENOTDIR;
	return list_dots(&offset, each, arg) ? list_rest(im, &inode, offset - 2, full, each, arg)
					     : 0;
}

/* --- where bytes lie ---------------------------------------------------------------- */

static int fill_chunk(struct image *im, sqfs_inode *inode, struct chunk *c)
{
	sqfs_blocklist bl;

	if (inode->xtra.reg.file_size / im->fs.sb.block_size / METADATA_ENTRIES >
			im->list_blocks_max ||
		sqfs_blockidx_blocklist(&im->fs, inode, &bl,
			(sqfs_off_t)(c->first * im->fs.sb.block_size)) != SQFS_OK)
		return -EIO;
	/* It may stop before the first one. */
	for (c->n = 0; c->n < CHUNK_BLOCKS && bl.remain > 0;) {
		if (sqfs_blocklist_next(&bl) != SQFS_OK)
			return -EIO;
		if (bl.pos / im->fs.sb.block_size < c->first)
			continue;
		c->pos[c->n] = bl.block;
		c->header[c->n++] = bl.header;
	}
	return 0;
}

/* The lock must be held. */
static int block_place(
	struct image *im, sqfs_inode *inode, uint64_t ino, uint64_t block, struct image_piece *ret)
{
	uint64_t first = block / CHUNK_BLOCKS * CHUNK_BLOCKS;
	struct chunk *c = &im->chunks[(ino * 31 + first / CHUNK_BLOCKS) % CHUNKS];

	if (c->ino != ino || c->first != first) {
		c->ino = 0;
		c->first = first;
		if (fill_chunk(im, inode, c) < 0)
			return -EIO;
		c->ino = ino;
	}
	if (block - first >= c->n)
		return -EIO;
	ret->pos = c->pos[block - first];
	ret->header = c->header[block - first];
	ret->fragment = 0;
	return 0;
}

/* The lock must be held. */
static int fragment_place(struct image *im, uint32_t number, struct image_piece *ret)
{
	struct squashfs_fragment_entry f;

	if (number >= im->fs.sb.fragments)
		return -ENOENT;
	/* Check the last byte: a damaged block may hold only one. */
	if (!image_is_inside(im, im->fs.frag_table.blocks[number / FRAGMENTS_A_BLOCK],
		    (number % FRAGMENTS_A_BLOCK + 1) * sizeof(f) - 1) ||
		sqfs_frag_entry(&im->fs, &f, number) != SQFS_OK)
		return -EIO;
	ret->pos = f.start_block;
	ret->header = f.size;
	ret->fragment = number + 1;
	return 0;
}

/* Find the file's block at offset, and how much of the file follows in it. The lock must be
 * held. */
static int piece_at(
	struct image *im, sqfs_inode *inode, uint64_t ino, uint64_t offset, struct image_piece *ret)
{
	uint32_t size = im->fs.sb.block_size;
	uint64_t file = inode->xtra.reg.file_size, block = offset / size;
	int in_tail = inode->xtra.reg.frag_idx != SQUASHFS_INVALID_FRAG && block == file / size;
	int r = in_tail ? fragment_place(im, inode->xtra.reg.frag_idx, ret)
			: block_place(im, inode, ino, block, ret);

	if (r < 0)
		return -EIO;
	ret->from = (uint32_t)(offset % size);
	ret->len = (uint32_t)(file - block * size < size ? file - block * size : size) - ret->from;
	if (in_tail) {
		if (inode->xtra.reg.frag_off > size)
			return -EIO;
		ret->from += inode->xtra.reg.frag_off;
	}
	return 0;
}

ssize_t image_pieces(struct image *im, uint64_t ino, uint64_t offset, size_t size,
	struct image_piece *pieces, size_t n)
{
	sqfs_inode inode;
	uint64_t end;
	size_t used = 0;

	HOLD(im);
	if (image_find(im, ino, &inode) < 0)
		return -EIO;
	if (!S_ISREG(inode.base.mode) || inode.xtra.reg.file_size > INT64_MAX)
		return -EINVAL;
	end = inode.xtra.reg.file_size;
	if (offset < end && end - offset > size)
		end = offset + size;
	for (; offset < end && used < n; used++) {
		if (piece_at(im, &inode, ino, offset, &pieces[used]) < 0)
			return -EIO;
		if (pieces[used].len > end - offset)
			pieces[used].len = (uint32_t)(end - offset);
		offset += pieces[used].len;
	}
	return (ssize_t)used;
}

/* Skip the variable part of an inode in the inode table. The lock must be held. */
static int step_over(struct image *im, sqfs_inode *inode)
{
	size_t rest;

	switch (inode->base.inode_type) {
	case SQUASHFS_REG_TYPE:
	case SQUASHFS_LREG_TYPE:
		rest = sqfs_blocklist_count(&im->fs, inode);
		if (rest > STEP_BLOCKS)
			return -ENOENT;
		rest *= sizeof(sqfs_blocklist_entry);
		break;
	case SQUASHFS_SYMLINK_TYPE:
		rest = inode->xtra.symlink_size;
		break;
	case SQUASHFS_DIR_TYPE:
		rest = 0;
		break;
	default:
		return -ENOENT;
	}
	return sqfs_md_read(&im->fs, &inode->next, NULL, rest) == SQFS_OK ? 0 : -ENOENT;
}

int image_next_file(struct image *im, uint64_t ino, uint64_t *next, struct image_piece *ret)
{
	sqfs_inode inode;
	sqfs_inode_id id;

	HOLD(im);
	if (image_find(im, ino, &inode) < 0 || step_over(im, &inode) < 0)
		return -ENOENT;
	id = ((uint64_t)inode.next.block - im->fs.sb.inode_table_start) << 16 | inode.next.offset;
	if ((uint64_t)inode.next.block >= im->fs.sb.directory_table_start ||
		get(im, id, &inode) < 0)
		return -ENOENT;
	*next = number_of(&im->fs, id);
	if (!S_ISREG(inode.base.mode) || inode.xtra.reg.file_size == 0 ||
		inode.xtra.reg.file_size >= im->fs.sb.block_size ||
		inode.xtra.reg.frag_idx == SQUASHFS_INVALID_FRAG)
		return 0;
	return piece_at(im, &inode, *next, 0, ret) == 0 ? 1 : -ENOENT;
}

static int read_all(int fd, char *buf, size_t size, off_t at)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = sqfs_pread(fd, buf + done, size - done, at + (off_t)done);

		if (n == 0 || (n < 0 && errno != EINTR))
			return -EIO;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

ssize_t image_block(const struct image *im, uint64_t pos, uint32_t header, void *ret)
{
	uint32_t room = im->fs.sb.block_size, size;
	auto_free char *raw = NULL;
	size_t len = room;
	bool compressed;

	sqfs_data_header(header, &compressed, &size);
	if (size > room || size == 0)
		return -EIO;
	if (!compressed)
		return read_all(im->fs.fd, ret, size, (off_t)pos) < 0 ? -EIO : (ssize_t)size;
	raw = malloc(size);
	if (!raw)
		return -ENOMEM;
	if (read_all(im->fs.fd, raw, size, (off_t)pos) < 0 ||
		im->fs.decompressor(raw, size, ret, &len) != SQFS_OK || len > room)
		return -EIO;
	return (ssize_t)len;
}
