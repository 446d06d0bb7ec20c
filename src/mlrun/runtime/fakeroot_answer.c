/* The fake root's supervisor: answers system calls. */
#include "runtime/fakeroot_calls.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/file_owner.h"
#include "base/memory.h"
#include "runtime/fakeroot_ids.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Newer than some of the headers that we build with. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#endif

#define GROUPS_MAX 65536 /* the kernel's NGROUPS_MAX */

/* A call being answered. */
struct call {
	int listener;
	const struct seccomp_notif *req;
	enum fakeroot_call what;
	pid_t pid; /* the calling thread */
	int is_32; /* of the 32-bit ABI */
	int pass;  /* let the kernel do it */
};

static uint64_t arg(const struct call *c, int i)
{
	return c->is_32 ? (uint32_t)c->req->data.args[i] : c->req->data.args[i];
}

/* Ids of -1 mean "not changed". */
static uint32_t id_arg(const struct call *c, int i)
{
	return (uint32_t)c->req->data.args[i];
}

/* Does the process still wait? If not, its number may be another's by now. */
static int is_valid(const struct call *c)
{
	return ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &c->req->id) == 0;
}

/* Let the kernel answer. */
static int pass(struct call *c)
{
	c->pass = 1;
	return 0;
}

/* --- the process's memory and files --------------------------------------------- */

static ssize_t read_memory(const struct call *c, uint64_t at, void *buf, size_t len)
{
	struct iovec mine = { buf, len }, its = { (void *)(uintptr_t)at, len };
	ssize_t n = process_vm_readv(c->pid, &mine, 1, &its, 1, 0);

	return n < 0 ? -errno : n;
}

static int write_memory(const struct call *c, uint64_t at, const void *buf, size_t len)
{
	struct iovec mine = { (void *)(uintptr_t)buf, len }, its = { (void *)(uintptr_t)at, len };

	return process_vm_writev(c->pid, &mine, 1, &its, 1, 0) == (ssize_t)len ? 0 : -EFAULT;
}

/* Read a string page by page: what follows it may not be mapped. */
static int read_text(const struct call *c, uint64_t at, char *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		size_t page = 4096 - (size_t)((at + done) % 4096);
		size_t want = page < size - done ? page : size - done;
		ssize_t n = read_memory(c, at + done, buf + done, want);

		if (n <= 0)
			return -EFAULT;
		if (memchr(buf + done, '\0', (size_t)n))
			return 0;
		done += (size_t)n;
	}
	return -ENAMETOOLONG;
}

static int open_proc(const struct call *c, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)c->pid, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_number(const struct call *c, int number)
{
	char name[32];

	snprintf(name, sizeof(name), "fd/%d", number);
	return open_proc(c, name, O_PATH);
}

/* Has any process called chroot(2)? */
static int roots_differ;

/* Is the process's root directory ours? */
static int has_our_root(const struct call *c)
{
	char path[64];
	struct stat its, ours;

	if (!roots_differ)
		return 1;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)c->pid);
	return stat(path, &its) == 0 && stat("/", &ours) == 0 && its.st_ino == ours.st_ino &&
		its.st_dev == ours.st_dev;
}

/* Open a path in a process that has changed its root directory. */
static int open_beneath(const struct call *c, int dirfd, const char *path, int flags)
{
	auto_close int root = open_proc(c, "root", O_PATH | O_DIRECTORY);
	char top[PATH_MAX], dir[PATH_MAX], link[64];
	auto_free char *whole = NULL;
	ssize_t n;

	if (root < 0)
		return root;
	if (*path == '/')
		return file_open_in_root(root, path, flags, 0);
	snprintf(link, sizeof(link), "/proc/%d/root", (int)c->pid);
	n = readlink(link, top, sizeof(top) - 1);
	if (n < 0)
		return -errno;
	top[n] = '\0';
	if (dirfd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", (int)c->pid);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)c->pid, dirfd);
	n = readlink(link, dir, sizeof(dir) - 1);
	if (n < 0)
		return -errno;
	dir[n] = '\0';
	if (strncmp(dir, top, strlen(top)) != 0)
		return -ENOENT;
	whole = xasprintf("/%s/%s", dir + strlen(top), path);
	return file_open_in_root(root, whole, flags, 0);
}

/* Open what a path means to the process, as O_PATH. */
static int open_path(const struct call *c, int dirfd, const char *text, int follow)
{
	static const char self[] = "/proc/self/", thread[] = "/proc/thread-self/";
	int flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW), fd;
	auto_close int dir = -1;
	auto_free char *own = NULL;
	const char *path = text;

	if (strncmp(text, self, sizeof(self) - 1) == 0)
		path = own = xasprintf("/proc/%d/%s", (int)c->pid, text + sizeof(self) - 1);
	else if (strncmp(text, thread, sizeof(thread) - 1) == 0)
		path = own = xasprintf("/proc/%d/%s", (int)c->pid, text + sizeof(thread) - 1);
	if (!has_our_root(c))
		return open_beneath(c, dirfd, path, flags);
	if (*path != '/') {
		dir = dirfd == AT_FDCWD ? open_proc(c, "cwd", O_PATH | O_DIRECTORY)
					: open_number(c, dirfd);
		if (dir < 0)
			return dir == -ENOENT ? -EBADF : dir;
	}
	fd = openat(dir, path, flags);
	return fd < 0 ? -errno : fd;
}

/* The file that the call names by arguments: dirfd and a path, of which an empty one may mean dirfd
 * itself. */
static int open_named(const struct call *c, int dirfd, uint64_t at, int flags)
{
	char path[PATH_MAX];
	int r = at || !(flags & AT_EMPTY_PATH) ? read_text(c, at, path, sizeof(path)) : 0;

	if (r < 0)
		return r;
	if (!at || !*path) {
		if (!(flags & AT_EMPTY_PATH))
			return -ENOENT;
		return dirfd == AT_FDCWD ? open_proc(c, "cwd", O_PATH) : open_number(c, dirfd);
	}
	return open_path(c, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW));
}

/* --- records --------------------------------------------------------------------- */

/* Owners of what has no extended attributes, by inode. */
struct kept {
	dev_t dev;
	ino_t ino;
	struct file_owner owner;
};

static void *kept; /* a tree, tsearch(3) */
static size_t n_kept;

static int by_inode(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->dev < y->dev ? -1 : x->dev > y->dev;
}

static struct kept *find_kept(const struct stat *st)
{
	const struct kept key = { .dev = st->st_dev, .ino = st->st_ino };
	struct kept **found = tfind(&key, &kept, by_inode);

	return found ? *found : NULL;
}

static void keep(const struct stat *st, const struct file_owner *o)
{
	struct kept *k = find_kept(st);

	if (!k) {
		k = xcalloc(1, sizeof(*k));
		*k = (struct kept){ st->st_dev, st->st_ino, *o };
		if (!tsearch(k, &kept, by_inode))
			mlr_oom();
		n_kept++;
	}
	k->owner = *o;
}

static int has_xattrs(const struct stat *st)
{
	return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
}

/* Is there a record? */
static int find_record(int fd, const struct stat *st, struct file_owner *ret)
{
	char path[32];
	struct kept *k;

	*ret = (struct file_owner){ 0, 0, 0 };
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (has_xattrs(st) && file_owner_get(path, ret))
		return 1;
	k = n_kept > 0 ? find_kept(st) : NULL;
	if (k)
		*ret = k->owner;
	return k != NULL;
}

static void record(int fd, const struct stat *st, const struct file_owner *o)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!has_xattrs(st) || file_owner_set(path, o) < 0 || (n_kept > 0 && find_kept(st)))
		keep(st, o);
}

/* --- owners ------------------------------------------------------------------------ */

static int is_root(const struct call *c)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(c->pid, 0);

	return !ids || ids->fsuid == 0;
}

static int chown_file(struct call *c, int fd, uint32_t uid, uint32_t gid)
{
	struct file_owner o;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!is_root(c))
		return -EPERM;
	if (!is_valid(c))
		return -ENOENT;
	/* What the kernel does besides: refuse another user's file, clear set-ID bits, set the
	 * time. */
	if (fchownat(fd, "", (uid_t)-1, 0, AT_EMPTY_PATH) < 0)
		return -errno;
	find_record(fd, &st, &o);
	if (uid != (uint32_t)-1)
		o.uid = uid;
	if (gid != (uint32_t)-1)
		o.gid = gid;
	if (S_ISREG(st.st_mode))
		o.mode &= ~(mode_t)(S_ISUID | (o.mode & S_IXGRP ? S_ISGID : 0));
	record(fd, &st, &o);
	return 0;
}

static int answer_chown(struct call *c)
{
	auto_close int fd = -1;
	int at = c->what == FAKEROOT_FCHOWNAT, dirfd = at ? (int)arg(c, 0) : AT_FDCWD;
	int flags = at ? (int)arg(c, 4) : c->what == FAKEROOT_LCHOWN ? AT_SYMLINK_NOFOLLOW : 0;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	fd = c->what == FAKEROOT_FCHOWN ? open_number(c, (int)arg(c, 0))
					: open_named(c, dirfd, arg(c, at ? 1 : 0), flags);
	if (c->what == FAKEROOT_FCHOWN && fd == -ENOENT)
		return -EBADF;
	return chown_file(c, fd, id_arg(c, at ? 2 : 1), id_arg(c, at ? 3 : 2));
}

/* Where stat and chmod calls have their file: in the arguments dirfd and path, path alone, or a
 * descriptor alone. */
static int is_at(const struct call *c)
{
	return c->what == FAKEROOT_FSTATAT || c->what == FAKEROOT_STATX ||
		c->what == FAKEROOT_FCHMODAT || c->what == FAKEROOT_FCHMODAT2;
}

static int is_by_number(const struct call *c)
{
	return c->what == FAKEROOT_FSTAT || c->what == FAKEROOT_FCHMOD;
}

static int open_file(const struct call *c)
{
	int flags = 0;

	if (is_by_number(c))
		return open_number(c, (int)arg(c, 0));
	if (c->what == FAKEROOT_STATX)
		flags = (int)arg(c, 2);
	else if (c->what == FAKEROOT_FSTATAT || c->what == FAKEROOT_FCHMODAT2)
		flags = (int)arg(c, 3);
	else if (c->what == FAKEROOT_LSTAT)
		flags = AT_SYMLINK_NOFOLLOW;
	return is_at(c) ? open_named(c, (int)arg(c, 0), arg(c, 1), flags)
			: open_named(c, AT_FDCWD, arg(c, 0), flags);
}

static int answer_statx(
	const struct call *c, int fd, const struct stat *st, const struct file_owner *o)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | ((int)arg(c, 2) & AT_STATX_SYNC_TYPE),
		    (unsigned)arg(c, 3), &x) < 0)
		return -errno;
	x.stx_uid = o->uid;
	x.stx_gid = o->gid;
	x.stx_mode = (uint16_t)file_owner_mode(o, st->st_mode);
	return write_memory(c, arg(c, 4), &x, sizeof(x));
}

/* The name by which this process finds a call's file, without opening it: enough if all processes
 * have our root directory. Returns whether there is one. */
static int name_file(const struct call *c, char *name, size_t size)
{
	int at = is_at(c), dirfd = at ? (int)arg(c, 0) : AT_FDCWD, r;
	char path[PATH_MAX] = "";

	if (is_by_number(c)) {
		snprintf(name, size, "/proc/%d/fd/%d", (int)c->pid, (int)arg(c, 0));
		return 1;
	}
	r = at && !arg(c, 1) ? 0 : read_text(c, arg(c, at ? 1 : 0), path, sizeof(path));
	if (r < 0 || roots_differ || strncmp(path, "/proc/", 6) == 0)
		return 0;
	if (*path == '/')
		r = snprintf(name, size, "%s", path);
	else if (dirfd == AT_FDCWD)
		r = snprintf(name, size, "/proc/%d/cwd/%s", (int)c->pid, path);
	else
		r = snprintf(name, size, "/proc/%d/fd/%d%s%s", (int)c->pid, dirfd, *path ? "/" : "",
			path);
	return r < (int)size;
}

/* Most files have no attributes: one call then says that there is no record. */
static int has_no_record(const struct call *c)
{
	char name[PATH_MAX + 64];
	ssize_t n;

	if (n_kept > 0 || !name_file(c, name, sizeof(name)))
		return 0;
	n = c->what == FAKEROOT_LSTAT ? llistxattr(name, NULL, 0) : listxattr(name, NULL, 0);
	return n <= 0;
}

/* Whatever goes wrong here, the kernel's own answer is right. */
static int answer_stat(struct call *c)
{
	auto_close int fd = has_no_record(c) ? -1 : open_file(c);
	struct file_owner o;
	struct stat st;
	int by_fd =
		c->what == FAKEROOT_FSTAT || c->what == FAKEROOT_STAT || c->what == FAKEROOT_LSTAT;

	if (fd < 0 || fstat(fd, &st) < 0 || !find_record(fd, &st, &o))
		return pass(c);
	if (c->what == FAKEROOT_STATX)
		return answer_statx(c, fd, &st, &o);
	st.st_mode = file_owner_mode(&o, st.st_mode);
	st.st_uid = o.uid;
	st.st_gid = o.gid;
	/* glibc's struct stat is the kernel's on 64-bit ABIs. */
	return write_memory(c, arg(c, by_fd ? 1 : 2), &st, sizeof(st));
}

/* The kernel changes the mode; a recorded one must not outlive that. */
static int answer_chmod(struct call *c)
{
	auto_close int fd = has_no_record(c) ? -1 : open_file(c);
	struct file_owner o;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !find_record(fd, &st, &o) || !o.mode || !is_valid(c))
		return pass(c);
	o.mode = (mode_t)arg(c, is_at(c) ? 2 : 1) & 07777;
	record(fd, &st, &o);
	return pass(c);
}

/* --- devices ------------------------------------------------------------------------ */

static mode_t umask_of(const struct call *c)
{
	char path[64];
	auto_free char *text = NULL;
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)c->pid);
	if (file_read(AT_FDCWD, path, 1 << 16, &text, NULL, NULL) < 0)
		return 022;
	line = strstr(text, "\nUmask:");
	return line ? (mode_t)strtoul(line + 7, NULL, 8) : 022;
}

/* A device becomes an empty file; other kinds are the kernel's. */
static int answer_mknod(struct call *c)
{
	int at = c->what == FAKEROOT_MKNODAT;
	mode_t mode = (mode_t)arg(c, at ? 2 : 1);
	char path[PATH_MAX], *slash;
	auto_close int dir = -1, fd = -1;
	int r;

	if ((!S_ISCHR(mode) && !S_ISBLK(mode)) || (S_ISCHR(mode) && arg(c, at ? 3 : 2) == 0))
		return pass(c); /* a whiteout is no device */
	r = read_text(c, arg(c, at ? 1 : 0), path, sizeof(path));
	if (r < 0)
		return r;
	slash = strrchr(path, '/');
	if (slash == path)
		dir = open_path(c, AT_FDCWD, "/", 1);
	else if (slash)
		*slash = '\0', dir = open_path(c, at ? (int)arg(c, 0) : AT_FDCWD, path, 1);
	else
		dir = open_path(c, at ? (int)arg(c, 0) : AT_FDCWD, ".", 1);
	if (dir < 0)
		return dir;
	if (!is_valid(c))
		return -ENOENT;
	fd = openat(dir, slash ? slash + 1 : path,
		O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, mode & 0777 & ~umask_of(c));
	return fd < 0 ? -errno : 0;
}

/* --- ids ------------------------------------------------------------------------------ */

#define SAME ((uint32_t)-1)

static int is_one_of(uint32_t id, const uint32_t v[3])
{
	return id == SAME || id == v[0] || id == v[1] || id == v[2];
}

/* setresuid(2) and its kin on three ids; may: the process is root. */
static int set_three(uint32_t v[3], uint32_t *fs, int may, uint32_t r, uint32_t e, uint32_t s)
{
	if (!may && (!is_one_of(r, v) || !is_one_of(e, v) || !is_one_of(s, v)))
		return -EPERM;
	if (r != SAME)
		v[0] = r;
	if (e != SAME)
		*fs = v[1] = e;
	if (s != SAME)
		v[2] = s;
	return 0;
}

/* setreuid(2): the saved id follows if the real one is set, or the effective one to another. */
static int set_two(uint32_t v[3], uint32_t *fs, int may, uint32_t r, uint32_t e)
{
	uint32_t real = v[0];
	int status = set_three(v, fs, may, r, e, SAME);

	if (status == 0 && (r != SAME || (e != SAME && e != real)))
		v[2] = v[1];
	return status;
}

/* setuid(2) */
static int set_one(uint32_t v[3], uint32_t *fs, int may, uint32_t id)
{
	return may ? set_three(v, fs, 1, id, id, id) : set_three(v, fs, 0, SAME, id, SAME);
}

static int set_fs(uint32_t v[3], uint32_t *fs, int may, uint32_t id)
{
	uint32_t was = *fs;

	if (id != SAME && (may || is_one_of(id, v) || id == was))
		*fs = id;
	return (int)was;
}

static int answer_set(struct call *c)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(c->pid, 1);
	uint32_t a = id_arg(c, 0), b = id_arg(c, 1), s = id_arg(c, 2);
	int may;

	if (!ids)
		return -ESRCH;
	may = ids->uid[1] == 0;
	switch (c->what) {
	case FAKEROOT_SETUID:
		return set_one(ids->uid, &ids->fsuid, may, a);
	case FAKEROOT_SETGID:
		return set_one(ids->gid, &ids->fsgid, may, a);
	case FAKEROOT_SETREUID:
		return set_two(ids->uid, &ids->fsuid, may, a, b);
	case FAKEROOT_SETREGID:
		return set_two(ids->gid, &ids->fsgid, may, a, b);
	case FAKEROOT_SETRESUID:
		return set_three(ids->uid, &ids->fsuid, may, a, b, s);
	case FAKEROOT_SETRESGID:
		return set_three(ids->gid, &ids->fsgid, may, a, b, s);
	case FAKEROOT_SETFSUID:
		return set_fs(ids->uid, &ids->fsuid, may, a);
	default:
		return set_fs(ids->gid, &ids->fsgid, may, a);
	}
}

static int answer_setgroups(struct call *c)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(c->pid, 1);
	uint64_t n = arg(c, 0);
	auto_free uint32_t *v = NULL;

	if (!ids)
		return -ESRCH;
	if (ids->uid[1] != 0)
		return -EPERM;
	if (n > GROUPS_MAX)
		return -EINVAL;
	v = xcalloc(n + 1, sizeof(*v));
	if (n > 0 && read_memory(c, arg(c, 1), v, n * sizeof(*v)) != (ssize_t)(n * sizeof(*v)))
		return -EFAULT;
	free(ids->groups);
	ids->groups = take_ptr(&v);
	ids->n_groups = (int)n;
	return 0;
}

static int answer_getgroups(struct call *c)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(c->pid, 0);
	int size = (int)arg(c, 0);

	if (!ids || ids->n_groups < 0)
		return pass(c);
	if (size == 0)
		return ids->n_groups;
	if (size < ids->n_groups)
		return -EINVAL;
	if (ids->n_groups > 0 &&
		write_memory(c, arg(c, 1), ids->groups,
			(size_t)ids->n_groups * sizeof(*ids->groups)) < 0)
		return -EFAULT;
	return ids->n_groups;
}

static int write_three(const struct call *c, const uint32_t v[3])
{
	for (int i = 0; i < 3; i++)
		if (write_memory(c, arg(c, i), &v[i], sizeof(v[i])) < 0)
			return -EFAULT;
	return 0;
}

static int answer_get(struct call *c)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(c->pid, 0);

	if (!ids)
		return pass(c);
	switch (c->what) {
	case FAKEROOT_GETUID:
		return (int)ids->uid[0];
	case FAKEROOT_GETEUID:
		return (int)ids->uid[1];
	case FAKEROOT_GETGID:
		return (int)ids->gid[0];
	case FAKEROOT_GETEGID:
		return (int)ids->gid[1];
	case FAKEROOT_GETRESUID:
		return write_three(c, ids->uid);
	default:
		return write_three(c, ids->gid);
	}
}

/* --- the rest --------------------------------------------------------------------------- */

/* File capabilities and the like cannot be set by the one mapped id. */
static int answer_setxattr(struct call *c)
{
	char name[256];

	if (read_text(c, arg(c, 1), name, sizeof(name)) < 0)
		return pass(c);
	return strncmp(name, "security.", 9) == 0 ? 0 : pass(c);
}

static int answer(struct call *c)
{
	switch (c->what) {
	case FAKEROOT_CHOWN:
	case FAKEROOT_LCHOWN:
	case FAKEROOT_FCHOWN:
	case FAKEROOT_FCHOWNAT:
		return answer_chown(c);
	case FAKEROOT_MKNOD:
	case FAKEROOT_MKNODAT:
		return answer_mknod(c);
	case FAKEROOT_SETGROUPS:
		return answer_setgroups(c);
	case FAKEROOT_GETGROUPS:
		return answer_getgroups(c);
	case FAKEROOT_CAPSET:
		return 0;
	case FAKEROOT_CHROOT:
		roots_differ = 1;
		return pass(c);
	case FAKEROOT_SETXATTR:
		return answer_setxattr(c);
	case FAKEROOT_STAT:
	case FAKEROOT_LSTAT:
	case FAKEROOT_FSTAT:
	case FAKEROOT_FSTATAT:
	case FAKEROOT_STATX:
		return answer_stat(c);
	case FAKEROOT_CHMOD:
	case FAKEROOT_FCHMOD:
	case FAKEROOT_FCHMODAT:
	case FAKEROOT_FCHMODAT2:
		return answer_chmod(c);
	case FAKEROOT_NOTHING:
		return pass(c);
	default:
		return c->what >= FAKEROOT_GETUID ? answer_get(c) : answer_set(c);
	}
}

/* Receive a call and answer it. Returns 0, or -errno if there is nothing more to answer. */
static int one(
	int listener, struct seccomp_notif *req, size_t req_size, struct seccomp_notif_resp *resp)
{
	struct call c = { .listener = listener, .req = req };
	int r;

	memset(req, 0, req_size);
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, req) < 0)
		return errno == EINTR || errno == ENOENT ? 0 : -errno;
	c.pid = (pid_t)req->pid;
	c.is_32 = req->data.arch != fakeroot_native_arch;
	c.what = fakeroot_call_of(req->data.arch, req->data.nr);
	r = answer(&c);
	resp->id = req->id;
	resp->val = r < 0 ? 0 : r;
	resp->error = r < 0 ? r : 0;
	resp->flags = 0;
	if (c.pass) {
		resp->val = resp->error = 0;
		resp->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	}
	/* -ENOENT: the process was killed meanwhile. */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, resp);
	return 0;
}

void fakeroot_answer(int listener)
{
	struct seccomp_notif_sizes sizes = { 0 };
	struct pollfd p = { listener, POLLIN, 0 };
	auto_free struct seccomp_notif *req = NULL;
	auto_free struct seccomp_notif_resp *resp = NULL;
	size_t size;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return;
	size = sizes.seccomp_notif > sizeof(*req) ? sizes.seccomp_notif : sizeof(*req);
	/* Run on the caller's processor, which waits anyway (Linux 6.6): a stat then takes 15 us
	 * instead of 70. */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	req = xcalloc(1, size);
	resp = xcalloc(1,
		sizes.seccomp_notif_resp > sizeof(*resp) ? sizes.seccomp_notif_resp
							 : sizeof(*resp));
	for (;;) {
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return;
		if (p.revents & POLLIN) {
			if (one(listener, req, size, resp) < 0)
				return;
		} else if (p.revents & (POLLHUP | POLLERR)) {
			return;
		}
	}
}
