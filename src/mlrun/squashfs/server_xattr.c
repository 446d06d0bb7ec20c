#include "squashfs/server_handle.h"

#define XATTRS_A_BLOCK (8192 / sizeof(struct squashfs_xattr_id))

static int is_shown(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

/* The lock must be held. x->remain is 0 for an inode without xattrs. */
static int open_xattrs(struct image *im, uint64_t ino, sqfs_xattr *x)
{
	sqfs_inode inode;

	if (image_find(im, ino, &inode) < 0)
		return -EIO;
	if (inode.xattr == SQUASHFS_INVALID_XATTR) {
		x->remain = 0;
		return 0;
	}
	if (inode.xattr >= im->fs.xattr_info.xattr_ids ||
		!image_is_inside(im, im->fs.xattr_table.blocks[inode.xattr / XATTRS_A_BLOCK],
			(inode.xattr % XATTRS_A_BLOCK + 1) * sizeof(struct squashfs_xattr_id) -
				1) ||
		sqfs_xattr_open(&im->fs, &inode, x) != SQFS_OK)
		return -EIO;
	return x->remain == 0 || image_is_inside(im, (uint64_t)x->c_next.block, x->c_next.offset)
		? 0
		: -EIO;
}

/* Read the next xattr's name into im->name. libsquashfuse's own search does not check a name's
 * length. */
static int next_xattr(struct image *im, sqfs_xattr *x)
{
	size_t n;

	if (sqfs_xattr_read(x) != SQFS_OK)
		return -EIO;
	n = sqfs_xattr_name_size(x);
	if (n >= IMAGE_NAME_ROOM || sqfs_xattr_name(x, im->name, true) != SQFS_OK)
		return -EIO;
	im->name[n] = '\0';
	return 0;
}

ssize_t image_xattr(struct image *im, uint64_t ino, const char *name, char ret[IMAGE_XATTR_MAX])
{
	size_t n = 0;
	sqfs_xattr x;

	if (!im->has_xattrs)
		return -ENOSYS;
	if (!is_shown(name))
		return -ENODATA;

	HOLD(im);
	if (open_xattrs(im, ino, &x) < 0)
		return -EIO;
	do {
		if (x.remain == 0)
			return -ENODATA;
		if (next_xattr(im, &x) < 0)
			return -EIO;
	} while (strcmp(im->name, name) != 0);
	if (sqfs_xattr_value_size(&x, &n) != SQFS_OK || n > IMAGE_XATTR_MAX ||
		sqfs_xattr_value(&x, ret) != SQFS_OK)
		return -EIO;
	return (ssize_t)n;
}

ssize_t image_xattrs(struct image *im, uint64_t ino, char ret[IMAGE_XATTR_MAX])
{
	size_t used = 0;
	sqfs_xattr x;

	if (!im->has_xattrs)
		return -ENOSYS;

	HOLD(im);
	if (open_xattrs(im, ino, &x) < 0)
		return -EIO;
	while (x.remain > 0) {
		size_t n;

		if (next_xattr(im, &x) < 0)
			return -EIO;
		n = strlen(im->name) + 1;
		if (!is_shown(im->name))
			continue;
		if (n > IMAGE_XATTR_MAX - used)
			return -EIO;
		memcpy(ret + used, im->name, n);
		used += n;
	}
	return (ssize_t)used;
}
