/*
 * The fake root's answers to hostile system calls. An input is
 *
 *   a byte    1: the caller has a root directory of its own; 2: it is gone before the answer;
 *             4: its memory changes after each look at it
 *   a byte    how many calls, less one, modulo 4
 *   64 bytes  a call, struct seccomp_data
 *   ...       the caller's memory, from address 0x10000
 *
 * Callers are processes that wait. All file systems are read-only but for a new one, where they
 * have their files; what a fuzzer is told to write is in directories of its arguments.
 */
#include "base/cleanup.h"
#include "base/memory.h"
#include "fakeroot/asked.h"
#include "fakeroot/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MEMORY_AT  0x10000u
#define MEMORY_MAX 16384
#define CALLS_MAX  4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char top[] = "/tmp/mlrun-fuzz-XXXXXX";
static pid_t callers[2]; /* at the machine's root, and in top/jail */

/* --- a place to do harm in -------------------------------------------------------- */

static void must(int ok, const char *what)
{
	if (ok)
		return;
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	must(fd >= 0 && write(fd, text, strlen(text)) >= 0, path);
	close(fd);
}

static void enter_namespaces(void)
{
	char map[64];
	int uid = (int)getuid(), gid = (int)getgid();

	must(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "make a user namespace");
	snprintf(map, sizeof(map), "0 %d 1", uid);
	write_file("/proc/self/uid_map", map);
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %d 1", gid);
	write_file("/proc/self/gid_map", map);
}

static void set_read_only(const char *path, int is_read_only)
{
	struct mount_attr attr = { 0 };

	if (is_read_only)
		attr.attr_set = MOUNT_ATTR_RDONLY;
	else
		attr.attr_clr = MOUNT_ATTR_RDONLY;
	must(syscall(SYS_mount_setattr, AT_FDCWD, path, is_read_only ? AT_RECURSIVE : 0, &attr,
		     sizeof(attr)) == 0,
		path);
}

static void bind_to_itself(const char *path)
{
	must(mount(path, path, NULL, MS_BIND | MS_REC, NULL) == 0, path);
}

static void make_files(void)
{
	must(chdir(top) == 0 && mkdir("jail", 0755) == 0 && mkdir("jail/d", 0755) == 0 &&
			mkdir("d", 0755) == 0 && symlink("d/f", "l") == 0 &&
			symlink("/f", "jail/l") == 0 && symlink("../../f", "jail/d/up") == 0,
		"make files");
	write_file("f", "outside");
	write_file("d/f", "");
	write_file("jail/f", "");
	write_file("jail/d/f", "");
}

/* A process that waits; descriptors 3 and 4 are a directory and a file. */
static pid_t start_caller(int is_jailed)
{
	int ends[2], ready;
	char c;
	pid_t pid;

	must(pipe2(ends, O_CLOEXEC) == 0, "make a pipe");
	ready = fcntl(ends[1], F_DUPFD_CLOEXEC, 64); /* above those that the caller has */
	close(ends[1]);
	must(ready >= 0, "duplicate a descriptor");
	pid = fork();
	must(pid >= 0, "fork");
	if (pid > 0) {
		close(ready);
		must(read(ends[0], &c, 1) == 1, "wait until the caller is in its place");
		close(ends[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(is_jailed ? "jail" : ".") < 0 || (is_jailed && chroot(".") < 0) ||
		dup2(open("d", O_RDONLY), 3) < 0 || dup2(open("f", O_RDONLY), 4) < 0 ||
		chdir("d") < 0 || write(ready, "", 1) != 1)
		_exit(1);
	close(ready);
	for (int fd = 0; fd < 64; fd++)
		if (fd != 3 && fd != 4)
			close(fd);
	for (;;)
		pause();
}

/* Remove the directory when this process ends, outside of its namespaces. */
static void remove_at_the_end(void)
{
	int ends[2];
	pid_t pid;
	char c;

	must(pipe2(ends, O_CLOEXEC) == 0, "make a pipe");
	pid = fork();
	must(pid >= 0, "fork");
	close(ends[pid > 0 ? 0 : 1]);
	if (pid > 0)
		return;
	setsid();
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	while (read(ends[0], &c, 1) < 0)
		;
	_exit(rmdir(top));
}

static void make_place(char **dirs, int n)
{
	char cwd[4096];

	must(mkdtemp(top) != NULL && getcwd(cwd, sizeof(cwd)), "make a directory");
	remove_at_the_end();
	enter_namespaces();
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "make mounts private");
	bind_to_itself(cwd);
	must(chdir(cwd) == 0, cwd); /* what is relative lies in the new mount */
	for (int i = 0; i < n; i++)
		bind_to_itself(dirs[i]);
	set_read_only("/", 1);
	set_read_only(".", 0);
	for (int i = 0; i < n; i++)
		set_read_only(dirs[i], 0);
	must(mount("none", top, "tmpfs", 0, "size=16m,nr_inodes=4096") == 0, "mount a tmpfs");
	make_files();
	for (int i = 0; i < 2; i++)
		callers[i] = start_caller(i);
	must(chdir(cwd) == 0, cwd);
	fakeroot_records_open(-1);
	asked_roots_differ();
}

static int is_directory(const char *path)
{
	struct stat st;

	return *path != '-' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* libFuzzer calls it before it starts threads. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char **dirs = xcalloc((size_t)*argc + 1, sizeof(*dirs));
	int n = 0;

	for (int i = 1; i < *argc; i++)
		if (is_directory((*argv)[i]))
			dirs[n++] = (*argv)[i];
	make_place(dirs, n);
	free(dirs);
	return 0;
}

/* --- the caller -------------------------------------------------------------------- */

struct caller {
	uint8_t memory[MEMORY_MAX];
	size_t len;
	int is_gone, is_changing;
};

/* How much of len bytes there are; 0: the address is not mapped. */
static size_t mapped(const struct caller *c, uint64_t at, size_t len)
{
	size_t rest;

	if (at < MEMORY_AT || at - MEMORY_AT >= c->len)
		return 0;
	rest = c->len - (size_t)(at - MEMORY_AT);
	return len < rest ? len : rest;
}

static ssize_t read_memory(const struct asked *a, uint64_t at, void *buf, size_t len)
{
	struct caller *c = a->reach->ctx;
	size_t n = mapped(c, at, len);

	if (len > 0 && n == 0)
		return -EFAULT;
	memcpy(buf, c->memory + (n > 0 ? at - MEMORY_AT : 0), n);
	for (size_t i = 0; c->is_changing && i < c->len; i++)
		c->memory[i] ^= (uint8_t)(c->memory[i] == '/' ? 0 : 1);
	return (ssize_t)n;
}

static ssize_t write_memory(const struct asked *a, uint64_t at, const void *buf, size_t len)
{
	struct caller *c = a->reach->ctx;

	if (mapped(c, at, len) != len)
		return -EFAULT;
	memcpy(c->memory + (len > 0 ? at - MEMORY_AT : 0), buf, len);
	return (ssize_t)len;
}

static int waits(const struct asked *a)
{
	const struct caller *c = a->reach->ctx;

	return !c->is_gone;
}

static int give(const struct asked *a, int fd, int cloexec)
{
	const struct caller *c = a->reach->ctx;

	(void)cloexec;
	if (fcntl(fd, F_GETFL) < 0)
		abort();
	return c->is_changing ? -EINVAL : 7;
}

/* --- what must hold ------------------------------------------------------------------ */

/* Of files that a caller in the jail cannot reach. */
struct outside {
	ssize_t xattrs[4];
	struct timespec changed[4];
};

static void look_outside(struct outside *ret)
{
	static const char *const names[] = { "", "/f", "/d", "/d/f" };

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = xasprintf("%s%s", top, names[i]);
		struct stat st;

		if (stat(path, &st) < 0)
			abort();
		ret->xattrs[i] = listxattr(path, NULL, 0);
		ret->changed[i] = st.st_ctim;
	}
}

static int next_descriptor(void)
{
	int fd = fcntl(2, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static void answer(const struct asked_reach *reach, const struct seccomp_data *call, int is_jailed)
{
	struct asked a = { .reach = reach, .data = call, .id = 1, .pid = callers[is_jailed] };
	int next = next_descriptor(), r;
	struct outside before, after;

	a.what = fakeroot_call_of(call->arch, call->nr);
	if (is_jailed)
		look_outside(&before);
	r = asked_answer(&a);
	if ((a.pass && r != 0) || (r < -4095 && a.what > FAKEROOT_GETGROUPS))
		abort();
	if (next_descriptor() != next)
		abort();
	if (!is_jailed)
		return;
	look_outside(&after);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		abort();
}

/* Remove what was made. */
static void tidy(const char *name)
{
	static const char *const ours[] = { ".", "..", "f", "d", "l", "up", "jail" };
	auto_free char *path = xasprintf("%s%s", top, name);
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		size_t i = 0;

		while (i < ARRAY_LEN(ours) && strcmp(ours[i], e->d_name) != 0)
			i++;
		if (i == ARRAY_LEN(ours))
			if (unlinkat(dirfd(d), e->d_name, 0) < 0)
				unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct caller c;
	static const struct asked_reach reach = { read_memory, write_memory, waits, give, &c };
	struct seccomp_data calls[CALLS_MAX];
	size_t n = size > 2 ? data[1] % CALLS_MAX + 1u : 1, all = n * sizeof(*calls);

	if (callers[0] == 0)
		make_place(NULL, 0);
	if (size < 2 + all || size - 2 - all > MEMORY_MAX)
		return 0;
	memcpy(calls, data + 2, all);
	c.len = size - 2 - all;
	memcpy(c.memory, data + 2 + all, c.len);
	c.is_gone = data[0] & 2;
	c.is_changing = data[0] & 4;
	for (size_t i = 0; i < n; i++)
		answer(&reach, &calls[i], data[0] & 1);
	tidy("");
	tidy("/d");
	tidy("/jail");
	tidy("/jail/d");
	return 0;
}
