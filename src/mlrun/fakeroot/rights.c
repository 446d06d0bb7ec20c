#include "fakeroot/rights.h"

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

/* A process's own files in /proc, and its pipes, are root's here. */
static int is_its_own(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
		(fs.f_type == PROC_SUPER_MAGIC || fs.f_type == PIPEFS_MAGIC);
}

/* Judge by what is shown of a file. */
static int may(const struct fakeroot_ids *ids, int fd, const struct file_owner *o, int want)
{
	int shift = o->uid == ids->fsuid ? 6 : fakeroot_ids_has_group(ids, o->gid) ? 3 : 0;

	return ((int)(o->mode >> shift) & want) == want || is_its_own(fd);
}

int fakeroot_may(const struct fakeroot_ids *ids, int fd, int want)
{
	struct file_owner o;
	struct stat st;

	return fakeroot_shown(fd, &st, &o) < 0 ||
		(!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISFIFO(st.st_mode)) ||
		may(ids, fd, &o, want);
}

int fakeroot_owns(const struct fakeroot_ids *ids, int fd)
{
	struct file_owner o;
	struct stat st;

	return fakeroot_shown(fd, &st, &o) < 0 || o.uid == ids->fsuid || is_its_own(fd);
}

/* --- directories on the way ----------------------------------------------------------- */

/* Directories, by their absolute paths, that everybody may search, with all above them. */
static struct {
	char *paths[64];
	int is_off;
} ways;

void fakeroot_ways_forget(int for_good)
{
	for (size_t i = 0; i < ARRAY_LEN(ways.paths); i++) {
		free(ways.paths[i]);
		ways.paths[i] = NULL;
	}
	ways.is_off |= for_good;
}

static char **way_of(const char *path)
{
	unsigned hash = 0;

	for (const char *s = path; *s; s++)
		hash = hash * 31 + (unsigned char)*s;
	return &ways.paths[hash % ARRAY_LEN(ways.paths)];
}

/* May it search a directory? st gets what the kernel says of that. */
static int may_enter(const struct fakeroot_ids *ids, int fd, struct stat *st, int *is_everybodys)
{
	struct file_owner o;

	*st = (struct stat){ 0 };
	if (fakeroot_shown(fd, st, &o) < 0 || (o.mode & 0111) == 0111)
		return 1;
	*is_everybodys = 0;
	return may(ids, fd, &o, X_OK);
}

#define DEPTH_MAX 128

/*
 * May it search a directory and those above it, up to the one where the path begins?
 *
 *   dir    taken
 *   start  -1: the root. A path that leads above its start is not judged
 */
static int may_search_up(const struct fakeroot_ids *ids, int dir, int start, int *is_everybodys)
{
	int can = 1, met = start < 0;
	struct stat first = { 0 }, st, above;

	*is_everybodys = 1;
	if (start >= 0 && fstat(start, &first) < 0)
		return 1;
	for (int i = 0; i < DEPTH_MAX && dir >= 0; i++) {
		auto_close int fd = dir;

		can &= may_enter(ids, fd, &st, is_everybodys);
		met |= start >= 0 && file_is_one(&st, &first);
		dir = met && start >= 0 ? -1 : openat(fd, "..", O_PATH | O_CLOEXEC);
		if (dir >= 0 && fstat(dir, &above) == 0 && file_is_one(&st, &above))
			close(take_fd(&dir));
	}
	return can || !met;
}

static int may_search_absolute(
	const struct asked *a, const struct fakeroot_ids *ids, const char *path)
{
	char **way = way_of(path);
	int is_everybodys, can, dir;

	if (*way && strcmp(*way, path) == 0)
		return 1;
	dir = asked_open(a, AT_FDCWD, path, 1);
	can = may_search_up(ids, dir, -1, &is_everybodys);
	if (dir >= 0 && is_everybodys && !ways.is_off)
		set_ptr(way, xstrdup(path));
	return can;
}

int fakeroot_may_search(
	const struct asked *a, const struct fakeroot_ids *ids, int dirfd, char *path)
{
	auto_free char *dir = NULL;
	auto_close int start = -1;
	size_t len = strlen(path);
	int is_everybodys, is_absolute = *path == '/';
	const char *slash;
	struct stat st;

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	slash = strrchr(path, '/');
	dir = path_dir(path);
	if (is_absolute)
		return may_search_absolute(a, ids, dir);
	start = asked_open(a, dirfd, ".", 1);
	if (start < 0 || !slash)
		return start < 0 || may_enter(ids, start, &st, &is_everybodys);
	return may_search_up(ids, asked_open(a, dirfd, dir, 1), start, &is_everybodys);
}

/* The same of the directories of an open file, which the path led to, perhaps by a link. */
static int may_search_to(
	const struct asked *a, const struct fakeroot_ids *ids, int fd, const char *path)
{
	char link[32], real[PATH_MAX];
	ssize_t n;
	char *slash;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = ways.is_off ? -1 : readlink(link, real, sizeof(real) - 1);
	if (n < 0)
		return 1;
	real[n] = '\0';
	slash = strrchr(real, '/');
	if (*real != '/' || (*path != '/' && strcmp(path_base(path), slash + 1) == 0))
		return 1;
	*(slash == real ? slash + 1 : slash) = '\0';
	return may_search_absolute(a, ids, real);
}

int fakeroot_rights_reach(const struct asked *a)
{
	const struct fakeroot_ids *ids;
	char path[PATH_MAX];
	int dirfd;

	if ((a->what >= FAKEROOT_CHOWN && a->what <= FAKEROOT_FCHOWNAT) ||
		(a->what >= FAKEROOT_CHMOD && a->what <= FAKEROOT_FCHMODAT2) ||
		(a->what >= FAKEROOT_MKDIR && a->what <= FAKEROOT_SYMLINKAT) ||
		(a->what >= FAKEROOT_LINK && a->what <= FAKEROOT_RENAMEAT2))
		fakeroot_ways_forget(0);
	ids = fakeroot_ids_of_user(a);
	return !ids || !asked_path(a, &dirfd, path) || fakeroot_may_search(a, ids, dirfd, path);
}

/* --- names --------------------------------------------------------------------------- */

static int is_link(const struct asked *a)
{
	return a->what == FAKEROOT_LINK || a->what == FAKEROOT_LINKAT;
}

/* Another's file gets no further name, unless its contents are anybody's: proc(5),
 * protected_hardlinks, which is usually set. */
static int judge_target(
	const struct asked *a, const struct fakeroot_ids *ids, int dirfd, uint64_t text, int follow)
{
	auto_close int fd = -1;
	char path[PATH_MAX];
	struct file_owner o;
	struct stat st;

	if (asked_text(a, text, path, sizeof(path)) < 0)
		return 0;
	if (!fakeroot_may_search(a, ids, dirfd, path))
		return -EACCES;
	fd = asked_open(a, dirfd, path, follow);
	if (fd < 0 || fakeroot_owns(ids, fd) || fakeroot_shown(fd, &st, &o) < 0)
		return 0;
	return S_ISREG(st.st_mode) && !(o.mode & S_ISUID) &&
			(o.mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP) &&
			fakeroot_may(ids, fd, R_OK | W_OK)
		? 0
		: -EPERM;
}

/* May it take away, make or replace a name of a directory? Returns 0 also if the kernel will say
 * what is wrong; 1 if a link's name is taken. */
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
	if (!fakeroot_may_search(a, ids, dirfd, path))
		return -EACCES;
	dir = asked_parent(a, dirfd, path, &name);
	if (dir < 0)
		return 0;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 ? is_link(a) : !is_new)
		return fd >= 0;
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
	int dirfd = at ? (int)asked_arg(a, 0) : AT_FDCWD, to = 0, r = 0;

	if (!ids)
		return asked_pass(a);
	if (is_link(a) || a->what >= FAKEROOT_RENAME)
		to = judge_name(
			a, ids, at ? (int)asked_arg(a, 2) : AT_FDCWD, asked_arg(a, at ? 3 : 1), 1);
	if (!is_link(a))
		r = judge_name(a, ids, dirfd, asked_arg(a, at), 0);
	else if (to <= 0)
		r = judge_target(a, ids, dirfd, asked_arg(a, at),
			at && (int)asked_arg(a, 4) & AT_SYMLINK_FOLLOW);
	if (r == 0)
		r = to;
	return r < 0 ? r : asked_pass(a);
}

/* --- files ---------------------------------------------------------------------------- */

int fakeroot_may_use(const struct asked *a, const struct fakeroot_ids *ids, int want)
{
	auto_close int fd = asked_file(a);
	char path[PATH_MAX];
	int dirfd;

	return fd < 0 ||
		(fakeroot_may(ids, fd, want) &&
			(!asked_path(a, &dirfd, path) || may_search_to(a, ids, fd, path)));
}

/* By the real ids, but with AT_EACCESS. */
static int answer_access(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	int at = a->what != FAKEROOT_ACCESS, want = (int)asked_arg(a, at ? 2 : 1);
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
	return fakeroot_may_use(a, &as, want) ? asked_pass(a) : -EACCES;
}

/* chdir(2) and truncate(2) */
static int answer_use(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of_user(a);
	int want = a->what == FAKEROOT_CHDIR ? X_OK : W_OK;

	return !ids || fakeroot_may_use(a, ids, want) ? asked_pass(a) : -EACCES;
}

/* utimensat(2): who may write may set the present time, the owner any. */
static int answer_times(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of_user(a);
	auto_close int fd = !ids  ? -1
		: asked_arg(a, 1) ? asked_file(a)
				  : asked_borrow(a, (int)asked_arg(a, 0));
	struct timespec t[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };

	if (fd < 0 || fakeroot_owns(ids, fd) ||
		(asked_arg(a, 2) && asked_read(a, asked_arg(a, 2), t, sizeof(t)) < 0))
		return asked_pass(a);
	if (t[0].tv_nsec != UTIME_NOW || t[1].tv_nsec != UTIME_NOW)
		return -EPERM;
	return fakeroot_may(ids, fd, W_OK) ? asked_pass(a) : -EACCES;
}

int fakeroot_rights_answer(struct asked *a)
{
	if (a->what < FAKEROOT_ACCESS)
		return answer_names(a);
	if (a->what <= FAKEROOT_FACCESSAT2)
		return answer_access(a);
	if (a->what == FAKEROOT_UTIMENSAT)
		return answer_times(a);
	return a->what < FAKEROOT_UTIMENSAT ? answer_use(a) : asked_pass(a);
}
