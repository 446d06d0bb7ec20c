/*
 * LD_PRELOAD: system calls that fail on demand, for tests/cli/locks.bats and faults.bats.
 *
 *   FAULT_FLOCK=ENOSYS|ok   flock(2) fails so, or grants every lock to everybody, as NFS may
 *   FAULT_CALL=NAME:N       the N-th call (from 1) of write, rename, fsync, mkdir, open or connect
 *                           fails with FAULT_ERRNO's number; writes to stdout and stderr do not
 * count FAULT_QUOTA=KIB:BYTES:FILES:FILES   quotactl(2) tells these limits and what is used of them
 *   FAULT_COUNT=FILE        write "NAME COUNT" lines there at the end
 *
 * Families count together: write is write and pwrite, rename renameat and renameat2 as well, fsync
 * fdatasync and syncfs, mkdir mkdirat, open openat and openat2.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum family { WRITE, RENAME, FSYNC, MKDIR, OPEN, CONNECT, FAMILIES };
static const char *const names[] = { "write", "rename", "fsync", "mkdir", "open", "connect" };

static unsigned counts[FAMILIES];
static int family = -1, code = 5;
static unsigned nth;

__attribute__((constructor)) static void begin(void)
{
	const char *call = getenv("FAULT_CALL"), *number = getenv("FAULT_ERRNO");
	const char *colon = call ? strchr(call, ':') : NULL;

	for (int i = 0; colon && i < FAMILIES; i++)
		if (strncmp(call, names[i], (size_t)(colon - call)) == 0)
			family = i;
	nth = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
	if (number)
		code = atoi(number);
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("FAULT_COUNT");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644)
		      : -1;

	for (int i = 0; fd >= 0 && i < FAMILIES; i++)
		dprintf(fd, "%s %u\n", names[i], counts[i]);
}

static int fails(enum family f)
{
	unsigned n = __atomic_add_fetch(&counts[f], 1, __ATOMIC_RELAXED);

	if ((int)f != family || n != nth)
		return 0;
	errno = code;
	return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int flock(int fd, int op);
int flock(int fd, int op)
{
	const char *how = getenv("FAULT_FLOCK");

	if (how && strcmp(how, "ok") == 0)
		return 0;
	if (how) {
		errno = ENOSYS;
		return -1;
	}
	return (int)syscall(SYS_flock, fd, op);
}

ssize_t write(int fd, const void *buf, size_t len)
{
	if (fd > 2 && fails(WRITE))
		return -1;
	return syscall(SYS_write, fd, buf, len);
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t at)
{
	return fails(WRITE) ? -1 : syscall(SYS_pwrite64, fd, buf, len, at);
}

ssize_t pwrite64(int fd, const void *buf, size_t len, off64_t at)
{
	return fails(WRITE) ? -1 : syscall(SYS_pwrite64, fd, buf, len, at);
}

int rename(const char *from, const char *to)
{
	return fails(RENAME) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int fd, const char *from, int to_fd, const char *to)
{
	return fails(RENAME) ? -1 : (int)syscall(SYS_renameat, fd, from, to_fd, to);
}

int renameat2(int fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, fd, from, to_fd, to, flags);
}

int fsync(int fd)
{
	return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return fails(FSYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
	return fails(FSYNC) ? -1 : (int)syscall(SYS_syncfs, fd);
}

int mkdir(const char *path, mode_t mode)
{
	return fails(MKDIR) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int fd, const char *path, mode_t mode)
{
	return fails(MKDIR) ? -1 : (int)syscall(SYS_mkdirat, fd, path, mode);
}

static int do_open(int fd, const char *path, int flags, va_list ap)
{
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;

	return fails(OPEN) ? -1 : (int)syscall(SYS_openat, fd, path, flags, mode);
}

#define OPEN_AT(name)                                      \
	int name(int fd, const char *path, int flags, ...) \
	{                                                  \
		va_list ap;                                \
		int r;                                     \
                                                           \
		va_start(ap, flags);                       \
		r = do_open(fd, path, flags, ap);          \
		va_end(ap);                                \
		return r;                                  \
	}

#define OPEN_HERE(name)                                 \
	int name(const char *path, int flags, ...)      \
	{                                               \
		va_list ap;                             \
		int r;                                  \
                                                        \
		va_start(ap, flags);                    \
		r = do_open(AT_FDCWD, path, flags, ap); \
		va_end(ap);                             \
		return r;                               \
	}

OPEN_AT(openat)
OPEN_AT(openat64)
OPEN_HERE(open)
OPEN_HERE(open64)

static long tell_quota(struct dqblk *q)
{
	unsigned long long limit, used, files, files_used;

	if (sscanf(getenv("FAULT_QUOTA"), "%llu:%llu:%llu:%llu", &limit, &used, &files,
		    &files_used) != 4) {
		errno = EINVAL;
		return -1;
	}
	memset(q, 0, sizeof(*q));
	q->dqb_bhardlimit = limit;
	q->dqb_curspace = used;
	q->dqb_ihardlimit = files;
	q->dqb_curinodes = files_used;
	q->dqb_valid = QIF_ALL;
	return 0;
}

/* openat2(2) has no function of its own in glibc. */
long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2 && fails(OPEN))
		return -1;
	if (number == SYS_quotactl_fd && getenv("FAULT_QUOTA"))
		return tell_quota((struct dqblk *)a[3]);
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return fails(CONNECT) ? -1 : REAL(connect)(fd, to, len);
}
