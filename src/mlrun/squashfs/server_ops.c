#include "squashfs/server_ops.h"

#define FOREVER 1e9 /* seconds: an image never changes */

static const struct ops *ops_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void op_init(void *ctx, struct fuse_conn_info *conn)
{
	const struct ops *o = ctx;

	conn->want |= conn->capable &
		(FUSE_CAP_ASYNC_READ | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_NO_OPEN_SUPPORT |
			FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_PARALLEL_DIROPS |
			FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	conn->want &= ~(unsigned)(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_ATOMIC_O_TRUNC);
	conn->max_background = (unsigned)o->threads * 4;
	conn->congestion_threshold = (unsigned)o->threads * 3;
}

static void fill_entry(struct fuse_entry_param *e, const struct stat *st)
{
	memset(e, 0, sizeof(*e));
	e->ino = st->st_ino;
	e->attr = *st;
	e->attr_timeout = e->entry_timeout = FOREVER;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .entry_timeout = FOREVER }; /* cache negative look-ups, too */
	struct stat st;
	int r = image_lookup(ops_of(req)->image, parent, name, &st);

	if (r == 0)
		fill_entry(&e, &st);
	if (r == 0 || r == -ENOENT)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, -r);
	if (r == 0)
		warm_looked_up(st.st_ino);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	fuse_reply_none(req); /* there is no state to drop */
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;
	int r = image_stat(ops_of(req)->image, ino, &st);

	if (r == 0)
		fuse_reply_attr(req, &st, FOREVER);
	else
		fuse_reply_err(req, -r);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[PATH_MAX];
	int r = image_readlink(ops_of(req)->image, ino, target);

	if (r == 0)
		fuse_reply_readlink(req, target);
	else
		fuse_reply_err(req, -r);
}

/* Fail as "not needed": the kernel then opens files without asking, and keeps its cache. */
static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fuse_reply_err(req, ENOSYS);
}

/* --- reading files ------------------------------------------------------------------ */

/* A request's blocks while the reply is sent. */
struct answer {
	struct blocks *blocks;
	struct image_piece *pieces;
	const struct block **used;
	struct iovec *iov;
	size_t n, block_size;
	char *zeros; /* if there is a hole */
};

static void answer_done(struct answer *a)
{
	for (size_t i = 0; a->used && i < a->n; i++)
		if (a->used[i])
			blocks_put(a->blocks, a->used[i]);
	free(a->pieces);
	free(a->used);
	free(a->iov);
	free(a->zeros);
}

static int gather_piece(struct answer *a, size_t i)
{
	const struct image_piece *p = &a->pieces[i];
	int r;

	a->iov[i].iov_len = p->len;
	if (p->header == 0 && !p->fragment) {
		if (!a->zeros && !(a->zeros = calloc(1, a->block_size)))
			return -ENOMEM;
		a->iov[i].iov_base = a->zeros;
		return 0;
	}
	r = blocks_get(a->blocks, p, &a->used[i]);
	if (r == 0)
		a->iov[i].iov_base = a->used[i]->data + p->from;
	return r;
}

/* Get all blocks of a range. Returns 0 or -errno. */
static int gather(const struct ops *o, fuse_ino_t ino, size_t size, off_t offset, struct answer *a)
{
	size_t room = size / a->block_size + 3;
	ssize_t n;
	int r = 0;

	a->pieces = calloc(room, sizeof(*a->pieces));
	a->used = calloc(room, sizeof(*a->used));
	a->iov = calloc(room, sizeof(*a->iov));
	if (!a->pieces || !a->used || !a->iov)
		return -ENOMEM;
	n = image_pieces(o->image, ino, (uint64_t)offset, size, a->pieces, room);
	if (n < 0)
		return (int)n;
	a->n = (size_t)n;
	for (size_t i = 0; r == 0 && i < a->n; i++)
		r = gather_piece(a, i);
	return r;
}

static void op_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	const struct ops *o = ops_of(req);
	auto_call(answer_done) struct answer a = { .blocks = o->blocks,
		.block_size = image_block_size(o->image) };
	int r = offset < 0 ? -EINVAL : gather(o, ino, size, offset, &a);

	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	fuse_reply_iov(req, a.iov, (int)a.n);
	ahead_of_read(o, ino, (uint64_t)offset, a.pieces, a.n);
}

/* --- directories -------------------------------------------------------------------- */

/* A directory's names being written to a buffer. */
struct listing {
	fuse_req_t req;
	char *buf;
	size_t size, used;
	int plus; /* with attributes */
};

/* Returns 0 if the buffer is full. */
static int list_name(void *arg, const char *name, const struct stat *st, off_t next)
{
	struct listing *l = arg;
	char *at = l->buf + l->used;
	size_t room = l->size - l->used, n;

	if (l->plus) {
		struct fuse_entry_param e;

		fill_entry(&e, st);
		if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])))
			e.ino = 0; /* do not look it up */
		n = fuse_add_direntry_plus(l->req, at, room, name, &e, next);
	} else {
		n = fuse_add_direntry(l->req, at, room, name, st, next);
	}
	if (n > room)
		return 0;
	l->used += n;
	return 1;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, int plus)
{
	auto_free char *buf = malloc(size);
	struct listing l = { .req = req, .buf = buf, .size = size, .plus = plus };
	int r = buf ? image_list(ops_of(req)->image, ino, offset, plus, list_name, &l) : -ENOMEM;

	if (r < 0 && l.used == 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_buf(req, l.buf, l.used);
}

static void op_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	list(req, ino, size, offset, 0);
}

static void op_readdirplus(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	list(req, ino, size, offset, 1);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st;

	image_statfs(ops_of(req)->image, &st);
	fuse_reply_statfs(req, &st);
}

/* --- extended attributes ------------------------------------------------------------ */

/* -ENOSYS for an image without any xattrs: the kernel does not ask again. */
static void reply_value(fuse_req_t req, const char *buf, ssize_t n, size_t size)
{
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)n);
	else if (size < (size_t)n)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	char buf[IMAGE_XATTR_MAX];

	reply_value(req, buf, image_xattr(ops_of(req)->image, ino, name, buf), size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	char buf[IMAGE_XATTR_MAX];

	reply_value(req, buf, image_xattrs(ops_of(req)->image, ino, buf), size);
}

const struct fuse_lowlevel_ops ops_table = {
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
