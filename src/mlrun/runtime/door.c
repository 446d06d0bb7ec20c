#include "runtime/door.h"

#include "base/proc.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>

/* The order of one-by-one entry: the first gives the rights to enter the others, and the last
 * changes /proc. */
static const struct {
	int flag;
	const char *name;
} kinds[DOOR_KINDS] = {
	{ CLONE_NEWUSER, "user" },
	{ CLONE_NEWPID, "pid" },
	{ CLONE_NEWIPC, "ipc" },
	{ CLONE_NEWNET, "net" },
	{ CLONE_NEWUTS, "uts" },
	{ CLONE_NEWCGROUP, "cgroup" },
	{ CLONE_NEWNS, "mnt" },
};

int door_open(int proc, pid_t pid, struct door *ret)
{
	auto_call(door_close) struct door d = { .proc = proc, .pidfd = -1, .pid = pid };
	struct proc_stat st;

	d.pidfd = proc_pidfd(pid);
	if (d.pidfd < 0 && errno != ENOSYS && errno != EPERM)
		return -ESRCH;
	if (proc_stat_of(proc, pid, &st) < 0)
		return -ESRCH;
	d.start = st.start;
	*ret = d;
	d.pidfd = -1;
	return 0;
}

int door_lives(const struct door *d)
{
	struct pollfd p = { .fd = d->pidfd, .events = POLLIN };
	struct proc_stat st;

	if (d->pidfd >= 0)
		return poll(&p, 1, 0) == 0;
	return proc_stat_of(d->proc, d->pid, &st) == 0 && st.start == d->start;
}

int door_differs(const struct door *d)
{
	int flags = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct stat its, own;
		char name[40];

		snprintf(name, sizeof(name), "self/ns/%s", kinds[i].name);
		if (fstatat(d->proc, name, &own, 0) < 0)
			continue; /* not in this kernel */
		snprintf(name, sizeof(name), "%ld/ns/%s", (long)d->pid, kinds[i].name);
		if (fstatat(d->proc, name, &its, 0) < 0)
			return errno == ENOENT || errno == ESRCH ? -ESRCH : -EACCES;
		if (its.st_ino != own.st_ino)
			flags |= kinds[i].flag;
	}
	return flags;
}

static void close_all(int (*fds)[DOOR_KINDS])
{
	for (size_t i = 0; i < DOOR_KINDS; i++)
		if ((*fds)[i] >= 0)
			close((*fds)[i]);
}

/* A failure halfway cannot be undone, so it has an error of its own. */
static int enter_fds(const int fds[DOOR_KINDS], int namespaces)
{
	int entered = 0;

	for (size_t i = 0; i < DOOR_KINDS; i++) {
		if (!(namespaces & kinds[i].flag))
			continue;
		if (setns(fds[i], kinds[i].flag) < 0)
			return entered ? -ENOTRECOVERABLE : -errno;
		entered = 1;
	}
	return 0;
}

/* Open those of these bits that a process has; -1 for others. */
static int open_all(int proc, const char *pid, int namespaces, int fds[DOOR_KINDS])
{
	memset(fds, -1, sizeof(*fds) * DOOR_KINDS);
	for (size_t i = 0; i < DOOR_KINDS; i++) {
		char name[40];

		snprintf(name, sizeof(name), "%.16s/ns/%s", pid, kinds[i].name);
		if ((namespaces & kinds[i].flag) &&
			(fds[i] = openat(proc, name, O_RDONLY | O_CLOEXEC)) < 0)
			return errno == ENOENT ? -ESRCH : -errno;
	}
	return 0;
}

/* Before Linux 5.8: enter each by its file. */
static int enter_each(const struct door *d, int namespaces)
{
	auto_call(close_all) int fds[DOOR_KINDS];
	char pid[24];

	snprintf(pid, sizeof(pid), "%ld", (long)d->pid);
	TRY(open_all(d->proc, pid, namespaces, fds));
	return door_lives(d) ? enter_fds(fds, namespaces) : -ESRCH;
}

int door_enter(const struct door *d, int namespaces, struct mlr_error *err)
{
	int dumpable = prctl(PR_GET_DUMPABLE), r;

	prctl(PR_SET_DUMPABLE, 0);
	r = d->pidfd >= 0 && setns(d->pidfd, namespaces) == 0 ? 0 : -errno;
	if (r == -EINVAL || r == -ENOSYS || d->pidfd < 0)
		r = enter_each(d, namespaces);
	if (r == 0)
		return 0;
	if (r == -ESRCH || r == -EPERM || r == -EACCES)
		prctl(PR_SET_DUMPABLE, dumpable == 1);
	if (r == -ESRCH)
		return mlr_fail(err, ESRCH, "process %ld has ended", (long)d->pid);
	return mlr_fail(err, r == -EACCES ? EPERM : -r, "enter the namespaces of process %ld: %s",
		(long)d->pid, strerror(-r));
}

int door_offer(int fds[DOOR_KINDS])
{
	auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return open_all(proc, "self", ~0, fds);
}

int door_take(const int fds[DOOR_KINDS], struct mlr_error *err)
{
	auto_call(close_all) int own[DOOR_KINDS];
	int namespaces = 0, r = door_offer(own);

	for (size_t i = 0; r == 0 && i < DOOR_KINDS; i++) {
		struct stat a, b;

		if (fstat(fds[i], &a) < 0 || fstat(own[i], &b) < 0)
			r = -errno;
		else if (a.st_ino != b.st_ino)
			namespaces |= kinds[i].flag;
	}
	prctl(PR_SET_DUMPABLE, 0);
	if (r == 0)
		r = enter_fds(fds, namespaces);
	return r < 0 ? mlr_result(err, r, "enter the container's namespaces") : namespaces;
}

void door_close(struct door *d)
{
	fd_close(&d->pidfd);
	*d = (struct door)DOOR_INIT;
}
