#include "runtime/squashfuse_image.h"

#include "base/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <squashfuse/squashfuse.h>

#define FOREVER     1e9 /* seconds: an image never changes */
#define META_BLOCKS 64  /* of 8 KiB; libsquashfuse's own 8 are few for a tree of directories */
#define DATA_BLOCKS 4
#define XATTR_MAX   65536 /* the kernel's own limit (xattr(7)) */

static struct {
	int fd;
	struct image_owner owner;
	int has_xattrs;
	pthread_key_t key;
} the_image;

static void handle_free(void *p)
{
	sqfs_destroy(p);
	free(p);
}

/* More room than libsquashfuse gives itself. What cannot be had stays as it was. */
static void grow(sqfs_cache *cache, size_t blocks)
{
	sqfs_cache bigger;

	if (sqfs_block_cache_init(&bigger, blocks) != SQFS_OK)
		return;
	sqfs_cache_destroy(cache);
	*cache = bigger;
}

static sqfs_err handle_new(sqfs **ret)
{
	sqfs *fs = calloc(1, sizeof(*fs));
	sqfs_err r = fs ? sqfs_init(fs, the_image.fd, 0) : SQFS_ERR;

	if (r != SQFS_OK) {
		free(fs);
		return r;
	}
	grow(&fs->md_cache, META_BLOCKS);
	grow(&fs->data_cache, DATA_BLOCKS);
	*ret = fs;
	return SQFS_OK;
}

/* This thread's handle, or NULL. */
static sqfs *handle(void)
{
	sqfs *fs = pthread_getspecific(the_image.key);

	if (!fs && handle_new(&fs) == SQFS_OK && pthread_setspecific(the_image.key, fs) != 0) {
		handle_free(fs);
		fs = NULL;
	}
	return fs;
}

int image_use(int fd, const struct image_owner *owner, const char **why)
{
	sqfs *fs = NULL;
	sqfs_err r;

	the_image.fd = fd;
	the_image.owner = *owner;
	if (pthread_key_create(&the_image.key, handle_free) != 0) {
		*why = "no memory";
		return -ENOMEM;
	}
	r = handle_new(&fs);
	*why = r == SQFS_BADFORMAT ? "not a squashfs image"
		: r == SQFS_BADVERSION ? "a squashfs image of another version than 4"
		: r == SQFS_BADCOMP    ? "a squashfs image with a compression that libsquashfuse lacks"
				       : "a damaged squashfs image";
	if (r != SQFS_OK)
		return -EPROTO;
	the_image.has_xattrs = fs->sb.xattr_id_table_start != (uint64_t)SQUASHFS_INVALID_BLK;
	pthread_setspecific(the_image.key, fs);
	return 0;
}

/* FUSE's root is 1; no inode of an image lies where 1 or 2 would say, as an inode has 16 bytes. */
static sqfs_inode_id id_of(const sqfs *fs, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? fs->sb.root_inode : ino == 2 ? 0 : ino;
}

static fuse_ino_t number_of(const sqfs *fs, sqfs_inode_id id)
{
	return id == fs->sb.root_inode ? FUSE_ROOT_ID : id == 0 ? 2 : id;
}

/* Find an inode. Returns the handle, or NULL when the request has been answered with a failure. */
static sqfs *find(fuse_req_t req, fuse_ino_t ino, sqfs_inode *ret)
{
	sqfs *fs = handle();

	if (!fs)
		fuse_reply_err(req, ENOMEM);
	else if (sqfs_inode_get(fs, ret, id_of(fs, ino)) == SQFS_OK)
		return fs;
	else
		fuse_reply_err(req, EIO);
	return NULL;
}

static void fill_stat(const sqfs *fs, const sqfs_inode *inode, fuse_ino_t ino, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = ino;
	st->st_mode = inode->base.mode;
	st->st_nlink = (nlink_t)inode->nlink;
	st->st_uid = the_image.owner.uid;
	st->st_gid = the_image.owner.gid;
	st->st_mtim.tv_sec = st->st_ctim.tv_sec = st->st_atim.tv_sec = inode->base.mtime;
	st->st_blksize = fs->sb.block_size;
	if (S_ISREG(st->st_mode))
		st->st_size = (off_t)inode->xtra.reg.file_size;
	else if (S_ISLNK(st->st_mode))
		st->st_size = (off_t)inode->xtra.symlink_size;
	else if (S_ISDIR(st->st_mode))
		st->st_size = inode->xtra.dir.dir_size;
	st->st_blocks = (st->st_size + 511) / 512;
}

static void fill_entry(
	const sqfs *fs, const sqfs_inode *inode, fuse_ino_t ino, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof(*e));
	e->ino = ino;
	e->attr_timeout = e->entry_timeout = FOREVER;
	fill_stat(fs, inode, ino, &e->attr);
}

static void op_init(void *ctx, struct fuse_conn_info *conn)
{
	(void)ctx;
	conn->want |= conn->capable &
		(FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT |
			FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .entry_timeout = FOREVER }; /* that it is not there, too */
	sqfs_inode dir, inode;
	sqfs *fs = find(req, parent, &dir);
	sqfs_dir_entry entry;
	sqfs_name buf;
	bool found = false;

	if (!fs)
		return;
	if (strlen(name) > SQUASHFS_NAME_LEN) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	sqfs_dentry_init(&entry, buf);
	if (sqfs_dir_lookup(fs, &dir, name, strlen(name), &entry, &found) != SQFS_OK ||
		(found && sqfs_inode_get(fs, &inode, sqfs_dentry_inode(&entry)) != SQFS_OK)) {
		fuse_reply_err(req, EIO);
		return;
	}
	if (found)
		fill_entry(fs, &inode, number_of(fs, sqfs_dentry_inode(&entry)), &e);
	fuse_reply_entry(req, &e);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	(void)ino;
	(void)n;
	fuse_reply_none(req); /* nothing is remembered of inodes */
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	sqfs_inode inode;
	sqfs *fs = find(req, ino, &inode);
	struct stat st;

	(void)fi;
	if (!fs)
		return;
	fill_stat(fs, &inode, ino, &st);
	fuse_reply_attr(req, &st, FOREVER);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	sqfs_inode inode;
	sqfs *fs = find(req, ino, &inode);
	char target[PATH_MAX];
	size_t size = sizeof(target);

	if (!fs)
		return;
	if (!S_ISLNK(inode.base.mode) || inode.xtra.symlink_size >= sizeof(target) ||
		sqfs_readlink(fs, &inode, target, &size) != SQFS_OK)
		fuse_reply_err(req, EIO);
	else
		fuse_reply_readlink(req, target);
}

/* "Not needed": the kernel then opens without asking, and keeps what it has read. */
static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, ENOSYS);
}

static void op_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	sqfs_inode inode;
	sqfs *fs = find(req, ino, &inode);
	auto_free char *buf = NULL;
	sqfs_off_t n = (sqfs_off_t)size;

	(void)fi;
	if (!fs)
		return;
	if (!S_ISREG(inode.base.mode) || offset < 0) {
		fuse_reply_err(req, EINVAL);
	} else if ((uint64_t)offset >= inode.xtra.reg.file_size) {
		fuse_reply_buf(req, NULL, 0);
	} else if (!(buf = malloc(size))) {
		fuse_reply_err(req, ENOMEM);
	} else if (sqfs_read_range(fs, &inode, offset, &n, buf) != SQFS_OK) {
		fuse_reply_err(req, EIO);
	} else {
		fuse_reply_buf(req, buf, (size_t)n);
	}
}

/* A directory's names on their way into a buffer. Offsets: 0 is ".", 1 is "..", then 2 more than
 * libsquashfuse's own. */
struct listing {
	fuse_req_t req;
	sqfs *fs;
	char *buf;
	size_t size, used;
	int plus; /* with the attributes of each */
};

/* Returns 0 when there is no more room. */
static int list_name(struct listing *l, const char *name, const struct fuse_entry_param *e, off_t next)
{
	char *at = l->buf + l->used;
	size_t room = l->size - l->used,
	       n = l->plus ? fuse_add_direntry_plus(l->req, at, room, name, e, next)
			   : fuse_add_direntry(l->req, at, room, name, &e->attr, next);

	if (n > room)
		return 0;
	l->used += n;
	return 1;
}

static int list_dots(struct listing *l, off_t *offset)
{
	static const char *const dots[] = { ".", ".." };
	struct fuse_entry_param e = { .attr = { .st_ino = 0xffffffff, .st_mode = S_IFDIR } };

	for (; *offset < 2; ++*offset)
		if (!list_name(l, dots[*offset], &e, *offset + 1))
			return 0;
	return 1;
}

/* Returns 0, or an errno. */
static int list_rest(struct listing *l, sqfs_inode *inode, off_t offset)
{
	struct fuse_entry_param e = { 0 };
	sqfs_dir_entry entry;
	sqfs_err r = SQFS_OK;
	sqfs_inode child;
	sqfs_name buf;
	sqfs_dir dir;

	if (sqfs_dir_open(l->fs, inode, &dir, offset) != SQFS_OK)
		return EIO;
	sqfs_dentry_init(&entry, buf);
	while (sqfs_dir_next(l->fs, &dir, &entry, &r)) {
		sqfs_inode_id id = sqfs_dentry_inode(&entry);

		if (l->plus) {
			if (sqfs_inode_get(l->fs, &child, id) != SQFS_OK)
				return EIO;
			fill_entry(l->fs, &child, number_of(l->fs, id), &e);
		}
		e.attr.st_ino = number_of(l->fs, id);
		e.attr.st_mode = sqfs_dentry_mode(&entry) | (e.attr.st_mode & 07777);
		if (!list_name(l, sqfs_dentry_name(&entry), &e,
			    sqfs_dentry_next_offset(&entry) + 2))
			break;
	}
	return r == SQFS_OK ? 0 : EIO;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, int plus)
{
	sqfs_inode inode;
	struct listing l = { .req = req, .size = size, .plus = plus };
	auto_free char *buf = NULL;
	int r = 0;

	l.fs = find(req, ino, &inode);
	if (!l.fs)
		return;
	l.buf = buf = malloc(size);
	if (!S_ISDIR(inode.base.mode))
		r = ENOTDIR;
	else if (!buf)
		r = ENOMEM;
	else if (list_dots(&l, &offset))
		r = list_rest(&l, &inode, offset - 2);
	if (r != 0 && l.used == 0)
		fuse_reply_err(req, r);
	else
		fuse_reply_buf(req, l.buf, l.used);
}

static void op_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)fi;
	list(req, ino, size, offset, 0);
}

static void op_readdirplus(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)fi;
	list(req, ino, size, offset, 1);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st = { .f_namemax = SQUASHFS_NAME_LEN };
	sqfs *fs = handle();

	(void)ino;
	if (!fs) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	st.f_bsize = st.f_frsize = fs->sb.block_size;
	st.f_blocks = (fs->sb.bytes_used + fs->sb.block_size - 1) / fs->sb.block_size;
	st.f_files = fs->sb.inodes;
	fuse_reply_statfs(req, &st);
}

/* The user's own, but for those that overlayfs would obey. */
static int is_shown(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

static void reply_value(fuse_req_t req, const char *buf, size_t n, size_t size)
{
	if (size == 0)
		fuse_reply_xattr(req, n);
	else if (size < n)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, n);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	auto_free char *buf = NULL;
	size_t n = XATTR_MAX;
	sqfs_inode inode;
	bool found = false;
	sqfs_xattr x;
	sqfs *fs;

	if (!the_image.has_xattrs) {
		fuse_reply_err(req, ENOSYS); /* the kernel does not ask again */
		return;
	}
	fs = find(req, ino, &inode);
	if (!fs)
		return;
	if (!is_shown(name)) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	if (sqfs_xattr_open(fs, &inode, &x) != SQFS_OK ||
		(x.remain > 0 && sqfs_xattr_find(&x, name, &found) != SQFS_OK) ||
		(found && sqfs_xattr_value_size(&x, &n) != SQFS_OK) || n > XATTR_MAX)
		fuse_reply_err(req, EIO);
	else if (!found)
		fuse_reply_err(req, ENODATA);
	else if (!(buf = malloc(n + 1)) || sqfs_xattr_value(&x, buf) != SQFS_OK)
		fuse_reply_err(req, EIO);
	else
		reply_value(req, buf, n, size);
}

/* All names, each with a NUL. Returns their length, or -1. */
static ssize_t list_xattrs(sqfs *fs, sqfs_inode *inode, char buf[XATTR_MAX])
{
	size_t used = 0;
	sqfs_xattr x;

	if (sqfs_xattr_open(fs, inode, &x) != SQFS_OK)
		return -1;
	while (x.remain > 0) {
		size_t n;

		if (sqfs_xattr_read(&x) != SQFS_OK)
			return -1;
		n = sqfs_xattr_name_size(&x);
		if (n + 1 > XATTR_MAX - used ||
			sqfs_xattr_name(&x, buf + used, true) != SQFS_OK)
			return -1;
		buf[used + n] = '\0';
		if (is_shown(buf + used))
			used += n + 1;
	}
	return (ssize_t)used;
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	auto_free char *buf = NULL;
	sqfs_inode inode;
	ssize_t n;
	sqfs *fs;

	if (!the_image.has_xattrs) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	fs = find(req, ino, &inode);
	if (!fs)
		return;
	buf = malloc(XATTR_MAX);
	n = buf ? list_xattrs(fs, &inode, buf) : -1;
	if (n < 0)
		fuse_reply_err(req, EIO);
	else
		reply_value(req, buf, (size_t)n, size);
}

const struct fuse_lowlevel_ops image_operations = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.open = op_open,
	.read = op_read,
	.opendir = op_open,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
};
