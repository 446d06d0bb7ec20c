#include "fakeroot/asked.h"

#include "base/proc.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>

#define FIRST_READ 256 /* most paths are shorter, and copying a page takes longer */

int asked_pass(struct asked *a)
{
	a->pass = 1;
	return 0;
}

uint64_t asked_arg(const struct asked *a, int i)
{
	int is_32 = a->data->arch != fakeroot_native_arch;

	return is_32 ? (uint32_t)a->data->args[i] : a->data->args[i];
}

uint32_t asked_id(const struct asked *a, int i)
{
	return (uint32_t)a->data->args[i];
}

int asked_waits(const struct asked *a)
{
	return a->reach->waits(a);
}

/* --- memory --------------------------------------------------------------------- */

int asked_read(const struct asked *a, uint64_t at, void *buf, size_t len)
{
	return a->reach->read(a, at, buf, len) == (ssize_t)len ? 0 : -EFAULT;
}

int asked_write(const struct asked *a, uint64_t at, const void *buf, size_t len)
{
	return a->reach->write(a, at, buf, len) == (ssize_t)len ? 0 : -EFAULT;
}

/* Never beyond a page: what follows it may not be mapped. */
int asked_text(const struct asked *a, uint64_t at, char *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		size_t want = 4096 - (size_t)((at + done) % 4096);
		size_t most = done == 0 ? FIRST_READ : size - done;
		ssize_t n;

		if (most > size - done)
			most = size - done;
		if (want > most)
			want = most;
		n = a->reach->read(a, at + done, buf + done, want);
		if (n <= 0)
			return -EFAULT;
		if (memchr(buf + done, '\0', (size_t)n))
			return 0;
		done += (size_t)n;
	}
	return -ENAMETOOLONG;
}

/* --- which file the arguments name ------------------------------------------------ */

/* How a call's arguments name the file. */
enum naming {
	NAMING_NONE, /* otherwise */
	NAMING_PATH,
	NAMING_LINK, /* a path whose last link is not followed */
	NAMING_FD,
	NAMING_AT,  /* a directory's descriptor and a path */
	NAMING_AT2, /* with flags in argument 2, and so on: AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW */
	NAMING_AT3,
	NAMING_AT4,
};

#define NAMING(name, number, naming) [FAKEROOT_##name] = NAMING_##naming,
static const unsigned char namings[] = { FAKEROOT_CALLS(NAMING, NAMING) };

/* A descriptor alone; else a path, perhaps after the descriptor of a directory. */
struct named {
	int by_number;
	int dirfd;
	uint64_t path; /* 0: none was given */
	int flags;     /* AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW */
};

static struct named named_by(const struct asked *a)
{
	enum naming how = namings[a->what];
	int is_at = how >= NAMING_AT;

	return (struct named){ .by_number = how == NAMING_FD,
		.dirfd = is_at || how == NAMING_FD ? (int)asked_arg(a, 0) : AT_FDCWD,
		.path = how == NAMING_FD || how == NAMING_NONE ? 0 : asked_arg(a, is_at),
		.flags = how == NAMING_LINK ? AT_SYMLINK_NOFOLLOW
			: how > NAMING_AT   ? (int)asked_arg(a, how - NAMING_AT + 1)
					    : 0 };
}

/* Read the path. An empty one means dirfd itself, if the call allows that. */
static int read_path(const struct asked *a, const struct named *n, char path[PATH_MAX])
{
	int may_be_empty = n->flags & AT_EMPTY_PATH, r;

	*path = '\0';
	if (!n->path && may_be_empty)
		return 0;
	r = asked_text(a, n->path, path, PATH_MAX);
	return r == 0 && !*path && !may_be_empty ? -ENOENT : r;
}

int asked_path(const struct asked *a, int *dirfd, char path[PATH_MAX])
{
	struct named n = named_by(a);

	*dirfd = n.dirfd;
	return n.path && read_path(a, &n, path) == 0 && *path;
}

/* --- its descriptors -------------------------------------------------------------------- */

/*
 * Processes that asked before, by their numbers: a pidfd is never another process's. The kernel
 * makes inodes for what is looked up in /proc, which takes longer than the rest of an answer.
 */
static struct {
	pid_t pid;
	int fd; /* from PIDFD_FROM; 0: none */
	void *note;
} pidfds[64];

#define PIDFD_FROM 64 /* above the few others of this process */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif

static int open_pidfd(pid_t pid)
{
	auto_close int fd = proc_pidfd(pid);

	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_pidfd_open, pid, PIDFD_THREAD);
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, PIDFD_FROM);
}

static int renew_pidfd(size_t at, pid_t pid)
{
	int fd = open_pidfd(pid);

	if (pidfds[at].fd > 0)
		close(pidfds[at].fd);
	pidfds[at].pid = pid;
	pidfds[at].fd = fd < 0 ? 0 : fd;
	pidfds[at].note = NULL;
	return fd;
}

void **asked_note(const struct asked *a)
{
	size_t at = (size_t)a->pid % ARRAY_LEN(pidfds);

	if (pidfds[at].fd > 0 && pidfds[at].pid == a->pid &&
		syscall(SYS_pidfd_send_signal, pidfds[at].fd, 0, NULL, 0) == 0)
		return &pidfds[at].note;
	return renew_pidfd(at, a->pid) < 0 ? NULL : &pidfds[at].note;
}

int asked_borrow(const struct asked *a, int number)
{
	size_t at = (size_t)a->pid % ARRAY_LEN(pidfds);
	int fd = pidfds[at].pid == a->pid ? pidfds[at].fd : 0, r = -1;

	errno = ESRCH;
	if (fd > 0)
		r = (int)syscall(SYS_pidfd_getfd, fd, number, 0);
	if (r < 0 && errno == ESRCH && renew_pidfd(at, a->pid) >= 0)
		r = (int)syscall(SYS_pidfd_getfd, pidfds[at].fd, number, 0);
	return r < 0 ? -errno : r;
}

/* --- opening it --------------------------------------------------------------------- */

/* Write a number and return what follows it. printf(3) takes a tenth of an answer's time. */
static char *put_number(char *to, int number)
{
	unsigned rest = number < 0 ? 0u - (unsigned)number : (unsigned)number;
	char digits[12];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (number < 0)
		*to++ = '-';
	while (n > 0)
		*to++ = digits[--n];
	*to = '\0';
	return to;
}

#define PROC_SIZE 64

/* "/proc/PID/NAME", or "/proc/PID/NAME/NUMBER"; NAME is a short literal. Returns the end. */
static char *put_proc(
	const struct asked *a, const char *name, const int *number, char ret[PROC_SIZE])
{
	char *to = put_number(stpcpy(ret, "/proc/"), (int)a->pid);

	*to++ = '/';
	to = stpcpy(to, name);
	if (!number)
		return to;
	*to++ = '/';
	return put_number(to, *number);
}

static int open_proc(const struct asked *a, const char *name, int flags)
{
	char path[PROC_SIZE];
	int fd;

	put_proc(a, name, NULL, path);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Not always as O_PATH. */
static int open_number(const struct asked *a, int number)
{
	char path[PROC_SIZE];
	int fd = asked_borrow(a, number);

	if (fd >= 0 || fd == -EBADF)
		return fd;
	put_proc(a, "fd", &number, path);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -EBADF : -errno;
}

static int roots_differ; /* has any process called chroot(2)? */

void asked_roots_differ(void)
{
	roots_differ = 1;
}

static int has_our_root(const struct asked *a)
{
	char path[PROC_SIZE];
	struct stat its, ours;

	if (!roots_differ)
		return 1;
	put_proc(a, "root", NULL, path);
	return stat(path, &its) == 0 && stat("/", &ours) == 0 && file_is_one(&its, &ours);
}

static int read_link(const char *link, char ret[PATH_MAX])
{
	ssize_t n = readlink(link, ret, PATH_MAX - 1);

	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

/* What dir has beneath top, or NULL. */
static const char *beneath(const char *top, const char *dir)
{
	size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);

	return strncmp(dir, top, n) == 0 && (dir[n] == '/' || dir[n] == '\0') ? dir + n : NULL;
}

/* Open a path in a process that has changed its root directory. */
static int open_beneath(const struct asked *a, int dirfd, const char *path, int flags)
{
	auto_close int root = open_proc(a, "root", O_PATH | O_DIRECTORY);
	char top[PATH_MAX], dir[PATH_MAX], link[PROC_SIZE];
	auto_free char *whole = NULL;
	int r;

	if (root < 0)
		return root;
	if (*path == '/')
		return file_open_in_root(root, path, flags, 0);
	put_proc(a, "root", NULL, link);
	r = read_link(link, top);
	if (dirfd == AT_FDCWD)
		put_proc(a, "cwd", NULL, link);
	else
		put_proc(a, "fd", &dirfd, link);
	if (r == 0)
		r = read_link(link, dir);
	TRY(r);
	if (!beneath(top, dir))
		return -ENOENT;
	whole = xasprintf("/%s/%s", beneath(top, dir), path);
	return file_open_in_root(root, whole, flags, 0);
}

/* "/proc/self" would be this process. To free(), or NULL for another path. */
static char *its_own(const struct asked *a, const char *path)
{
	static const char self[] = "/proc/self/", thread[] = "/proc/thread-self/";
	const char *rest = NULL;

	if (strncmp(path, self, sizeof(self) - 1) == 0)
		rest = path + sizeof(self) - 1;
	else if (strncmp(path, thread, sizeof(thread) - 1) == 0)
		rest = path + sizeof(thread) - 1;
	return rest ? xasprintf("/proc/%d/%s", (int)a->pid, rest) : NULL;
}

int asked_open(const struct asked *a, int dirfd, const char *text, int follow)
{
	int flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW), fd;
	auto_free char *own = its_own(a, text);
	const char *path = own ? own : text;
	auto_close int dir = -1;

	if (!has_our_root(a))
		return open_beneath(a, dirfd, path, flags);
	if (*path != '/') {
		dir = dirfd == AT_FDCWD ? open_proc(a, "cwd", O_PATH | O_DIRECTORY)
					: open_number(a, dirfd);
		if (dir < 0 || strcmp(path, ".") == 0)
			return take_fd(&dir);
	}
	fd = openat(dir, path, flags);
	return fd < 0 ? -errno : fd;
}

int asked_file(const struct asked *a)
{
	struct named n = named_by(a);
	char path[PATH_MAX];

	if (n.by_number)
		return open_number(a, n.dirfd);
	TRY(read_path(a, &n, path));
	if (!*path)
		return n.dirfd == AT_FDCWD ? open_proc(a, "cwd", O_PATH) : open_number(a, n.dirfd);
	return asked_open(a, n.dirfd, path, !(n.flags & AT_SYMLINK_NOFOLLOW));
}

int asked_name(const struct asked *a, char ret[ASKED_NAME_SIZE], struct asked_name *how)
{
	struct named n = named_by(a);
	char path[PATH_MAX], *end;

	*path = '\0';
	if (!n.by_number && read_path(a, &n, path) < 0)
		return 0;
	if (*path && (roots_differ || strncmp(path, "/proc/", 6) == 0))
		return 0;
	how->number = -1;
	how->follow = !*path /* the link in /proc */ || !(n.flags & AT_SYMLINK_NOFOLLOW);
	if (*path == '/') {
		strcpy(ret, path);
		return 1;
	}
	if (n.dirfd == AT_FDCWD && !n.by_number) {
		end = put_proc(a, "cwd", NULL, ret);
	} else {
		end = put_proc(a, "fd", &n.dirfd, ret);
		how->number = *path ? -1 : n.dirfd;
	}
	if (*path) {
		*end++ = '/';
		strcpy(end, path);
	}
	return 1;
}

int asked_parent(const struct asked *a, int dirfd, char *path, const char **name)
{
	size_t len = strlen(path);
	char *slash;

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	*name = slash ? slash + 1 : path;
	return asked_open(a, dirfd, slash == path ? "/" : slash ? path : ".", 1);
}

long asked_status(pid_t pid, const char *field, int base)
{
	char path[64];
	auto_free char *text = NULL;
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read(AT_FDCWD, path, 1 << 16, &text, NULL, NULL) < 0)
		return -1;
	line = strstr(text, field);
	return line ? strtol(line + strlen(field), NULL, base) : -1;
}
