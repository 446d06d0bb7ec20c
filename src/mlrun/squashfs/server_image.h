/*
 * A squashfs image as the server sees it: what an inode is, what a directory holds and where a
 * file's bytes lie, read through libsquashfuse. For mlrun-squashfuse's own files and their tests;
 * knows nothing of FUSE.
 *
 * Every function may be called by several threads at once. libsquashfuse may not, so one handle
 * with one large cache is shared, and a lock held while metadata are looked at. What takes long,
 * reading and decompressing data, needs no lock.
 *
 * Inodes are named by FUSE's numbers: the root's is 1.
 */
#ifndef MLR_SQUASHFS_SERVER_IMAGE_H
#define MLR_SQUASHFS_SERVER_IMAGE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#define IMAGE_ROOT      1
#define IMAGE_XATTR_MAX 65536 /* the kernel's own limit (xattr(7)) */

struct image;

/* A run of a file's bytes that lie in one block of the image. */
struct image_piece {
	uint64_t pos;    /* of the block in the file; meaningless for a hole */
	uint32_t header; /* its size on disk and whether it is compressed, as the format packs it;
			  * 0: a hole, all zeros */
	uint32_t from;   /* first byte in the decompressed block */
	uint32_t len;
	uint32_t fragment; /* 1 + the number of the fragment block, 0 for one of the file's own */
};

/*
 * Open an image.
 *
 *   fd        open for reading; stays the caller's, and open as long as the image
 *   uid, gid  whom every file is said to belong to
 *
 * Returns 0; -ENOMEM; -EPROTO. *why is a literal that says what is wrong. For a compression that
 * cannot be read, *compression is its name.
 */
int image_open(int fd, uid_t uid, gid_t gid, struct image **ret, const char **why,
	const char **compression);
void image_close(struct image *im);

size_t image_block_size(const struct image *im);

/* Let the kernel read all of the metadata ahead, which lie together at the file's end. */
void image_expect_metadata(const struct image *im);

/* All: 0, or -EIO for a damaged image, or as said. */
int image_stat(struct image *im, uint64_t ino, struct stat *ret);
void image_statfs(struct image *im, struct statvfs *ret);

/* -ENOENT; -ENAMETOOLONG. The number is ret->st_ino. */
int image_lookup(struct image *im, uint64_t dir, const char *name, struct stat *ret);

int image_readlink(struct image *im, uint64_t ino, char ret[PATH_MAX]);

/*
 * Hand on a directory's names, "." and ".." first, until there are no more or each() returns 0.
 *
 *   offset  0, or what each() was given as the next one
 *   full    each() is given whole attributes, else st_ino and the type alone
 *
 * Returns 0; -ENOTDIR. each() is called with the lock held: it may not call image_ functions.
 */
typedef int image_each(void *arg, const char *name, const struct stat *st, off_t next);
int image_list(struct image *im, uint64_t ino, off_t offset, int full, image_each *each, void *arg);

/*
 * Say where bytes of a file lie, in order.
 *
 *   pieces  room for n of them
 *   size    cut at the file's end
 *
 * Returns how many pieces there are; -EINVAL for what is no file; what does not fit is left out.
 */
ssize_t image_pieces(struct image *im, uint64_t ino, uint64_t offset, size_t size,
	struct image_piece *pieces, size_t n);

/*
 * The inode after this one in the image. Files that were written one after the other, as those of a
 * directory are, lie so.
 *
 * Returns 1 when it is a small file, all of it in *ret, a piece of a fragment block; 0 when it is
 * something else; -ENOENT when it is not known where the next one lies.
 */
int image_next_file(struct image *im, uint64_t ino, uint64_t *next, struct image_piece *ret);

/*
 * Read and decompress a block, by a piece's pos and header, into image_block_size() bytes.
 *
 * Returns its size; -EIO, -ENOMEM.
 */
ssize_t image_block(const struct image *im, uint64_t pos, uint32_t header, void *ret);

/* The user's own extended attributes, but for those that overlayfs would obey. -ENOSYS: the image
 * has none at all; -ENODATA. Both return the length. */
ssize_t image_xattr(struct image *im, uint64_t ino, const char *name, char ret[IMAGE_XATTR_MAX]);
ssize_t image_xattrs(struct image *im, uint64_t ino, char ret[IMAGE_XATTR_MAX]);

#endif
