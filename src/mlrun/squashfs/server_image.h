/*
 * Reads a squashfs image for the server, through libsquashfuse: inodes, directories, and where a
 * file's bytes are. For mlrun-squashfuse's own files and their tests; knows nothing of FUSE.
 *
 * Every function is thread-safe. libsquashfuse is not, so all threads share one handle with one
 * large cache and lock it while they read metadata. Reading and decompressing data, which takes
 * long, needs no lock.
 *
 * Inodes have FUSE's numbers: the root's is 1.
 */
#pragma once

#include "base/base.h"

#include <sys/statvfs.h>

#define IMAGE_ROOT      1
#define IMAGE_XATTR_MAX 65536 /* the kernel's own limit (xattr(7)) */

struct image;

/* A run of a file's bytes in one block of the image. */
struct image_piece {
	uint64_t pos;    /* the block's offset in the image; undefined for a hole */
	uint32_t header; /* the block's size on disk and whether it is compressed, in the format's
			  * encoding; 0 for a hole */
	uint32_t from;   /* offset in the decompressed block */
	uint32_t len;
	uint32_t fragment; /* 1 + the index of the fragment block; 0 for the file's own block */
};

/*
 * Open an image.
 *
 *   fd        open for reading; stays the caller's, who keeps it open as long as the image
 *   part      "OFFSET+BYTES" of the file that are the image, outside which nothing is read; "" for
 *             all of it. A process has one image at a time
 *   uid, gid  the owner of all files
 *
 * Returns 0; -ENOMEM; -EPROTO. *why is a literal that says what is wrong; if it is an unsupported
 * compression, *compression is its name.
 */
int image_open(int fd, const char *part, uid_t uid, gid_t gid, struct image **ret, const char **why,
	const char **compression);
void image_close(struct image *im);

size_t image_block_size(const struct image *im);

/* Let the kernel read all metadata ahead: it is at the file's end. */
void image_expect_metadata(const struct image *im);

/* These return 0, or -EIO for a damaged image, or the errors named. */
int image_stat(struct image *im, uint64_t ino, struct stat *ret);
void image_statfs(struct image *im, struct statvfs *ret);

/* -ENOENT; -ENAMETOOLONG. The number is ret->st_ino. */
int image_lookup(struct image *im, uint64_t dir, const char *name, struct stat *ret);

int image_readlink(struct image *im, uint64_t ino, char ret[PATH_MAX]);

/*
 * Call each() for a directory's names, "." and ".." first, until the end or until each() returns 0.
 *
 *   offset  0, or an earlier call's next
 *   full    pass all attributes to each(), else st_ino and the type alone
 *
 * Returns 0; -ENOTDIR. each() runs under the lock and must not call image_ functions.
 */
typedef int image_each(void *arg, const char *name, const struct stat *st, off_t next);
int image_list(struct image *im, uint64_t ino, off_t offset, int full, image_each *each, void *arg);

/*
 * Find where a range of a file's bytes is stored, in order.
 *
 *   pieces  room for n of them
 *   size    cut at the file's end
 *
 * Returns the number of pieces, leaving out what does not fit; -EINVAL if it is not a file.
 */
ssize_t image_pieces(struct image *im, uint64_t ino, uint64_t offset, size_t size,
	struct image_piece *pieces, size_t n);

/*
 * Find the inode that follows this one in the image. Files that were written in sequence, such as a
 * directory's, are adjacent.
 *
 * Returns 1 if it is a small file, stored in a fragment block as *ret; 0 if it is something else;
 * -ENOENT if the next inode's position is unknown.
 */
int image_next_file(struct image *im, uint64_t ino, uint64_t *next, struct image_piece *ret);

/*
 * Read and decompress a block, by a piece's pos and header, into image_block_size() bytes.
 *
 * Returns its size; -EIO, -ENOMEM.
 */
ssize_t image_block(const struct image *im, uint64_t pos, uint32_t header, void *ret);

/* User extended attributes, without those that overlayfs would obey. -ENOSYS if the image has none
 * at all; -ENODATA. Both return the length. */
ssize_t image_xattr(struct image *im, uint64_t ino, const char *name, char ret[IMAGE_XATTR_MAX]);
ssize_t image_xattrs(struct image *im, uint64_t ino, char ret[IMAGE_XATTR_MAX]);

/* --- server_path.c: resolves a path --- */

struct image_place {
	struct stat st;
	uint64_t dir;        /* the parent directory's number */
	char path[PATH_MAX]; /* the path without links */
};

enum image_follow { IMAGE_NOFOLLOW, IMAGE_FOLLOW }; /* a link at the path's end */

/*
 * Resolve a path from the image's root. Links are followed inside the image, and ".." at the root
 * stays there.
 *
 * Returns 0; -ENOENT, with path set unless the last component is too long; -ELOOP, -ENAMETOOLONG,
 * -EIO.
 */
int image_resolve(
	struct image *im, const char *path, enum image_follow last, struct image_place *ret);
