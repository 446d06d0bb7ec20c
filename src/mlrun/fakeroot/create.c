/* The fake root's answers to processes that have become another user and make files: those are
 * theirs. */
#include "fakeroot/asked.h"

#include "base/base.h"
#include "base/file_owner.h"
#include "fakeroot/ids.h"
#include "fakeroot/records.h"

/* Where a file is to be made. */
struct making {
	char path[PATH_MAX];
	const char *name; /* in path: the last component */
	int dir;
	mode_t umask;
	struct file_owner owner;
};

/* In a directory with the set-group-ID bit new files have its group, and directories the bit, too
 * (inode(7)). */
static void inherit_group(struct making *m)
{
	struct file_owner o;
	struct stat st;

	if (fstat(m->dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	fakeroot_records_find(m->dir, &st, &o);
	if (file_owner_mode(&o, st.st_mode) & S_ISGID)
		m->owner.gid = o.gid;
}

/* Read the path and open its directory. Returns 0, or -errno: the kernel then says what is wrong.
 */
static int prepare(const struct asked *a, const struct fakeroot_ids *ids, int dirfd, uint64_t path,
	struct making *m)
{
	TRY(asked_text(a, path, m->path, sizeof(m->path)));
	m->dir = asked_parent(a, dirfd, m->path, &m->name);
	if (m->dir < 0)
		return m->dir;
	if (!*m->name || strcmp(m->name, ".") == 0 || strcmp(m->name, "..") == 0 || !asked_waits(a))
		return -EINVAL;
	m->owner = (struct file_owner){ ids->fsuid, ids->fsgid, 0 };
	m->umask = asked_umask(a);
	inherit_group(m);
	return 0;
}

static void record(const struct making *m, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0)
		fakeroot_records_set(fd, &st, &m->owner);
}

static int record_name(const struct making *m)
{
	auto_close int fd = openat(m->dir, m->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		record(m, fd);
	return 0;
}

/* Make the file in the process's place, and give it the descriptor. What is there already, and what
 * cannot be made, the kernel opens or refuses. */
static int open_file(struct asked *a, const struct making *m, int flags, mode_t mode)
{
	auto_close int fd = openat(m->dir, m->name,
		flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
		mode & 07777 & ~m->umask);
	int r;

	if (fd < 0)
		return asked_pass(a);
	record(m, fd);
	r = a->reach->give(a, fd, flags & O_CLOEXEC);
	if (r >= 0)
		return r;
	if (flags & O_EXCL) /* it must not find the file */
		unlinkat(m->dir, m->name, 0);
	return asked_pass(a);
}

static int answer_open(struct asked *a, const struct fakeroot_ids *ids)
{
	int at = a->what == FAKEROOT_OPENAT, dirfd = at ? (int)asked_arg(a, 0) : AT_FDCWD;
	int flags = a->what == FAKEROOT_CREAT ? O_CREAT | O_WRONLY | O_TRUNC
					      : (int)asked_arg(a, at ? 2 : 1);
	mode_t mode = (mode_t)asked_arg(a, at ? 3 : a->what == FAKEROOT_CREAT ? 1 : 2);
	struct making m = { .dir = -1 };
	int r = prepare(a, ids, dirfd, asked_arg(a, at ? 1 : 0), &m);

	if (r < 0 || !(flags & O_CREAT) || (flags & (O_PATH | O_DIRECTORY)))
		r = asked_pass(a);
	else
		r = open_file(a, &m, flags, mode);
	if (m.dir >= 0)
		close(m.dir);
	return r;
}

static int answer_mkdir(struct asked *a, const struct fakeroot_ids *ids)
{
	int at = a->what == FAKEROOT_MKDIRAT, dirfd = at ? (int)asked_arg(a, 0) : AT_FDCWD;
	mode_t mode = (mode_t)asked_arg(a, at ? 2 : 1);
	struct making m = { .dir = -1 };
	int r = prepare(a, ids, dirfd, asked_arg(a, at ? 1 : 0), &m);

	if (r < 0 || mkdirat(m.dir, m.name, mode & 01777 & ~m.umask) < 0)
		r = asked_pass(a);
	else
		r = record_name(&m);
	if (m.dir >= 0)
		close(m.dir);
	return r;
}

static int answer_symlink(struct asked *a, const struct fakeroot_ids *ids)
{
	int at = a->what == FAKEROOT_SYMLINKAT, dirfd = at ? (int)asked_arg(a, 1) : AT_FDCWD;
	struct making m = { .dir = -1 };
	char target[PATH_MAX];
	int r = asked_text(a, asked_arg(a, 0), target, sizeof(target));

	if (r == 0)
		r = prepare(a, ids, dirfd, asked_arg(a, at ? 2 : 1), &m);
	if (r < 0 || symlinkat(target, m.dir, m.name) < 0)
		r = asked_pass(a);
	else
		r = record_name(&m);
	if (m.dir >= 0)
		close(m.dir);
	return r;
}

int fakeroot_create_answer(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(a->pid, 0);

	if (!ids || (ids->fsuid == 0 && ids->fsgid == 0))
		return asked_pass(a);
	switch (a->what) {
	case FAKEROOT_MKDIR:
	case FAKEROOT_MKDIRAT:
		return answer_mkdir(a, ids);
	case FAKEROOT_SYMLINK:
	case FAKEROOT_SYMLINKAT:
		return answer_symlink(a, ids);
	default:
		return answer_open(a, ids);
	}
}
