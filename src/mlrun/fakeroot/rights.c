#include "fakeroot/rights.h"

#include "base/base.h"
#include "fakeroot/asked.h"

#include <linux/magic.h>
#include <sys/vfs.h>

int fakeroot_shown(int fd, struct stat *st, struct file_owner *ret)
{
	if (fstat(fd, st) < 0)
		return -1;
	if (!fakeroot_records_find(fd, st, ret) && st->st_uid != 0)
		return -1;
	ret->mode = file_owner_mode(ret, st->st_mode) & 07777;
	return 0;
}

/* A process's own files in /proc are root's here. */
static int is_in_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

int fakeroot_may(const struct fakeroot_ids *ids, int fd, int want)
{
	struct file_owner o;
	struct stat st;
	int shift;

	if (fakeroot_shown(fd, &st, &o) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return 1;
	shift = o.uid == ids->fsuid ? 6 : fakeroot_ids_has_group(ids, o.gid) ? 3 : 0;
	return ((int)(o.mode >> shift) & want) == want || is_in_proc(fd);
}

int fakeroot_owns(const struct fakeroot_ids *ids, int fd)
{
	struct file_owner o;
	struct stat st;

	return fakeroot_shown(fd, &st, &o) < 0 || o.uid == ids->fsuid || is_in_proc(fd);
}

/* May it take away, or replace, a name of a directory? Returns 0 also if the kernel will say what
 * is wrong. */
static int judge_name(
	const struct asked *a, const struct fakeroot_ids *ids, int dirfd, uint64_t text, int is_new)
{
	auto_close int dir = -1, fd = -1;
	char path[PATH_MAX];
	struct file_owner o;
	const char *name;
	struct stat st;

	if (asked_text(a, text, path, sizeof(path)) < 0)
		return 0;
	dir = asked_parent(a, dirfd, path, &name);
	if (dir < 0)
		return 0;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && !is_new)
		return 0;
	if (!fakeroot_may(ids, dir, W_OK | X_OK))
		return -EACCES;
	if (fd < 0 || fakeroot_shown(dir, &st, &o) < 0 || !(o.mode & S_ISVTX))
		return 0;
	return fakeroot_owns(ids, dir) || fakeroot_owns(ids, fd) ? 0 : -EPERM;
}

/* unlink(2), rename(2), link(2) and their kin: the kernel does what is allowed. */
static int answer_names(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of_user(a);
	int at = a->what == FAKEROOT_LINKAT || a->what == FAKEROOT_UNLINKAT ||
		a->what == FAKEROOT_RENAMEAT || a->what == FAKEROOT_RENAMEAT2;
	int removes = a->what != FAKEROOT_LINK && a->what != FAKEROOT_LINKAT;
	int adds = !removes || a->what >= FAKEROOT_RENAME, r = 0;

	if (ids && removes)
		r = judge_name(a, ids, at ? (int)asked_arg(a, 0) : AT_FDCWD, asked_arg(a, at), 0);
	if (ids && adds && r == 0)
		r = judge_name(
			a, ids, at ? (int)asked_arg(a, 2) : AT_FDCWD, asked_arg(a, at ? 3 : 1), 1);
	return r < 0 ? r : asked_pass(a);
}

/* By the real ids, but with AT_EACCESS. */
static int answer_access(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	int at = a->what != FAKEROOT_ACCESS, want = (int)asked_arg(a, at ? 2 : 1);
	auto_close int fd = -1;
	struct fakeroot_ids as;

	if (!ids || want == F_OK)
		return asked_pass(a);
	as = *ids;
	if (a->what != FAKEROOT_FACCESSAT2 || !((int)asked_arg(a, 3) & AT_EACCESS)) {
		as.fsuid = ids->uid[0];
		as.fsgid = ids->gid[0];
	}
	if (as.fsuid == 0)
		return asked_pass(a);
	fd = asked_file(a);
	return fd < 0 || fakeroot_may(&as, fd, want) ? asked_pass(a) : -EACCES;
}

int fakeroot_rights_answer(struct asked *a)
{
	return a->what < FAKEROOT_ACCESS ? answer_names(a) : answer_access(a);
}
