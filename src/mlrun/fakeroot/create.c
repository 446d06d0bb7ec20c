/* The fake root's answers to processes that make files: those of a process that has become another
 * user are that user's, and what is in a set-group-ID directory is its group's. */
#include "fakeroot/asked.h"

#include "fakeroot/rights.h"

#include <linux/openat2.h>

/* Where a file is to be made. */
struct making {
	const struct fakeroot_ids *ids; /* NULL: root may do everything */
	char path[PATH_MAX];
	const char *name; /* in path: the last component */
	int dir;
	struct file_owner owner;
	int inherits; /* the directory has the set-group-ID bit: directories get it, too */
};

static void making_done(struct making *m)
{
	fd_close(&m->dir);
}

/* Find the owner: in a directory with the set-group-ID bit new files have its group, and
 * directories the bit, too (inode(7)). */
static void find_owner(const struct asked *a, struct making *m)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	struct file_owner o;
	struct stat st;

	m->owner = (struct file_owner){ 0, 0, 0 };
	if (ids)
		m->owner = (struct file_owner){ ids->fsuid, ids->fsgid, 0 };
	if (fakeroot_shown(m->dir, &st, &o) < 0 || !(o.mode & S_ISGID))
		return;
	m->owner.gid = o.gid;
	m->inherits = 1;
}

/*
 * Read the path and open its directory.
 *
 * Returns 0; -EACCES; else -errno: the kernel then says what is wrong, or makes what is root's.
 */
static int prepare(const struct asked *a, int dirfd, uint64_t path, struct making *m)
{
	size_t len;

	m->ids = fakeroot_ids_of_user(a);
	TRY(asked_text(a, path, m->path, sizeof(m->path)));
	len = strlen(m->path);
	if (len > 0 && m->path[len - 1] == '/' && a->what != FAKEROOT_MKDIR &&
		a->what != FAKEROOT_MKDIRAT)
		return -EINVAL;
	if (m->ids && !fakeroot_may_search(a, m->ids, dirfd, m->path))
		return -EACCES;
	m->dir = asked_parent(a, dirfd, m->path, &m->name);
	if (m->dir < 0)
		return m->dir;
	if (!*m->name || strcmp(m->name, ".") == 0 || strcmp(m->name, "..") == 0)
		return -EINVAL;
	find_owner(a, m);
	if ((!m->owner.uid && !m->owner.gid && !m->inherits) || !asked_waits(a))
		return -EINVAL;
	if (!m->ids)
		return 0;
	if (fakeroot_may(m->ids, m->dir, W_OK | X_OK))
		return 0;
	return faccessat(m->dir, m->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -EEXIST : -EACCES;
}

/* The process's umask(2). Reading it takes longer than all else. */
static mode_t umask_of(const struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	long umask = ids && ids->umask >= 0 ? ids->umask : asked_status(a->pid, "\nUmask:", 8);

	if (ids)
		ids->umask = (int)umask;
	return umask < 0 ? 022 : (mode_t)umask;
}

static void record(const struct making *m, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0)
		fakeroot_records_set(fd, &st, &m->owner);
}

/* --- open ------------------------------------------------------------------------- */

struct opening {
	int flags;
	mode_t mode;
};

static int read_opening(const struct asked *a, struct opening *o)
{
	int at = a->what == FAKEROOT_OPENAT;
	struct open_how how;

	*o = (struct opening){ (int)asked_arg(a, 1 + at), (mode_t)asked_arg(a, 2 + at) };
	if (a->what == FAKEROOT_CREAT)
		*o = (struct opening){ O_CREAT | O_WRONLY | O_TRUNC, (mode_t)asked_arg(a, 1) };
	if (a->what != FAKEROOT_OPENAT2)
		return 0;
	TRY(asked_read(a, asked_arg(a, 2), &how, sizeof(how)));
	*o = (struct opening){ (int)how.flags, (mode_t)how.mode };
	return 0;
}

/* Make the file in the process's place, and give it the descriptor. Returns that; -EEXIST;
 * -errno, with nothing made. */
static int open_new(struct asked *a, const struct making *m, const struct opening *o)
{
	int is_nameless = (o->flags & O_TMPFILE) == O_TMPFILE;
	auto_close int fd = openat(m->dir, is_nameless ? "." : m->name,
		is_nameless ? o->flags | O_CLOEXEC
			    : o->flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
		o->mode & 07777 & ~umask_of(a));
	int r;

	if (fd < 0)
		return -errno;
	record(m, fd);
	r = a->reach->give(a, fd, o->flags & O_CLOEXEC);
	if (r < 0 && o->flags & O_EXCL) /* the kernel must not find the file */
		unlinkat(m->dir, m->name, 0);
	return r == -EEXIST ? -EIO : r;
}

static int open_nameless(struct asked *a, struct making *m, const struct opening *o)
{
	m->dir = asked_file(a);
	if (m->dir < 0 || !fakeroot_ids_of(a, 0))
		return -EINVAL;
	find_owner(a, m);
	return !m->ids || fakeroot_may(m->ids, m->dir, W_OK | X_OK) ? open_new(a, m, o) : -EACCES;
}

/* May it open what is there? Returns 1 also where the kernel will say what is wrong. */
static int may_open(const struct asked *a, const struct fakeroot_ids *ids, const struct opening *o)
{
	int mode = o->flags & O_ACCMODE;
	int want =
		(mode != O_WRONLY ? R_OK : 0) | (mode != O_RDONLY || o->flags & O_TRUNC ? W_OK : 0);

	return !ids || fakeroot_may_use(a, ids, want);
}

static int answer_open(struct asked *a)
{
	struct making m = { .ids = fakeroot_ids_of_user(a), .dir = -1 };
	int at = a->what == FAKEROOT_OPENAT || a->what == FAKEROOT_OPENAT2;
	struct opening o;
	int r = read_opening(a, &o);

	if (r < 0 || o.flags & O_PATH)
		return asked_pass(a);
	if ((o.flags & O_TMPFILE) == O_TMPFILE) {
		r = open_nameless(a, &m, &o);
	} else {
		r = -EEXIST;
		if (o.flags & O_CREAT && !(o.flags & O_DIRECTORY))
			r = prepare(a, at ? (int)asked_arg(a, 0) : AT_FDCWD, asked_arg(a, at), &m);
		if (r == 0)
			r = open_new(a, &m, &o);
		if (r == -EEXIST && !(o.flags & O_EXCL) && !may_open(a, m.ids, &o))
			r = -EACCES;
	}
	making_done(&m);
	return r >= 0 || r == -EACCES ? r : asked_pass(a);
}

/* --- other kinds ---------------------------------------------------------------------- */

static int finish(struct asked *a, struct making *m, int r)
{
	auto_close int fd = r < 0 ? -1 : openat(m->dir, m->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		record(m, fd);
	else if (r < 0 && r != -EACCES)
		r = asked_pass(a);
	making_done(m);
	return r;
}

static int answer_mkdir(struct asked *a)
{
	int at = a->what == FAKEROOT_MKDIRAT, dirfd = at ? (int)asked_arg(a, 0) : AT_FDCWD;
	mode_t mode = (mode_t)asked_arg(a, at ? 2 : 1) & 01777;
	struct making m = { .dir = -1 };
	int r = prepare(a, dirfd, asked_arg(a, at ? 1 : 0), &m);

	if (r == 0)
		mode &= ~umask_of(a);
	if (r == 0 &&
		(mkdirat(m.dir, m.name, mode) < 0 ||
			/* The bit of the directory above may be a recorded one. */
			(m.inherits && fchmodat(m.dir, m.name, S_ISGID | mode, 0) < 0)))
		r = -EEXIST;
	return finish(a, &m, r);
}

static int answer_symlink(struct asked *a)
{
	int at = a->what == FAKEROOT_SYMLINKAT, dirfd = at ? (int)asked_arg(a, 1) : AT_FDCWD;
	struct making m = { .dir = -1 };
	char target[PATH_MAX];
	int r = prepare(a, dirfd, asked_arg(a, at ? 2 : 1), &m);

	if (r == 0)
		r = asked_text(a, asked_arg(a, 0), target, sizeof(target));
	if (r == 0 && symlinkat(target, m.dir, m.name) < 0)
		r = -EEXIST;
	return finish(a, &m, r);
}

/* A device becomes an empty file, which only root may make; a whiteout is no device. */
static int answer_mknod(struct asked *a)
{
	int at = a->what == FAKEROOT_MKNODAT, dirfd = at ? (int)asked_arg(a, 0) : AT_FDCWD;
	mode_t mode = (mode_t)asked_arg(a, at ? 2 : 1);
	int is_device = S_ISBLK(mode) || (S_ISCHR(mode) && asked_arg(a, at ? 3 : 2) != 0);
	struct making m = { .dir = -1 };
	int r = prepare(a, dirfd, asked_arg(a, at ? 1 : 0), &m);

	if (is_device && m.ids)
		r = r == 0 ? -EPERM : r;
	else if (is_device && m.dir >= 0 && asked_waits(a))
		r = 0;
	if (r == 0 &&
		mknodat(m.dir, m.name,
			((is_device ? S_IFREG : mode & S_IFMT) | (mode & 07777)) & ~umask_of(a),
			0) < 0)
		r = -errno;
	if (is_device && r < 0 && (!m.ids || r == -EPERM)) {
		making_done(&m);
		return r;
	}
	return finish(a, &m, r);
}

int fakeroot_create_answer(struct asked *a)
{
	if (a->what <= FAKEROOT_CREAT)
		return answer_open(a);
	if (a->what <= FAKEROOT_MKDIRAT)
		return answer_mkdir(a);
	return a->what <= FAKEROOT_SYMLINKAT ? answer_symlink(a) : answer_mknod(a);
}
