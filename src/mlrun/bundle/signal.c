#include "bundle/signal.h"

#include "base/proc.h"

#include <sys/syscall.h>

#ifndef STATX_MNT_ID_UNIQUE /* Linux 6.8 */
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

uint64_t bundle_mount_of(int dir, const char *path)
{
	struct statx st;

	if (statx(dir, path, AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &st) < 0 ||
		!(st.stx_mask & STATX_MNT_ID_UNIQUE))
		return 0;
	return st.stx_mnt_id;
}

/* A process, by a descriptor that means no other one later. */
static int hold(pid_t pid)
{
	return pid > 0 ? proc_pidfd(pid) : -1;
}

static int send_signal(int fd, int sig)
{
	return syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 ? -errno : 0;
}

int bundle_signal(const struct state *s, int sig)
{
	auto_close int fd = hold(s->pid);

	if (fd < 0 || bundle_state_status(s) == STATUS_STOPPED)
		return -ESRCH;
	return send_signal(fd, sig);
}

/*
 * Is this one of the container's processes? It has the container's root. Where the kernel does not
 * number mounts for good, it is in the container's mount namespace, and the container's own process
 * lives: afterwards the kernel gives the namespace's number to another one.
 */
static int is_inside(const struct state *s, int proc, const char *pid)
{
	char name[NAME_MAX + 16];
	struct stat st;

	snprintf(name, sizeof(name), "%s/root", pid);
	if (s->root_mount)
		return bundle_mount_of(proc, name) == s->root_mount;
	snprintf(name, sizeof(name), "%s/ns/mnt", pid);
	return fstatat(proc, name, &st, 0) == 0 && st.st_ino == s->mounts &&
		bundle_state_status(s) != STATUS_STOPPED;
}

int bundle_signal_all(const struct state *s, int sig, struct strv *pids)
{
	auto_dir DIR *proc = opendir("/proc");
	int n = 0;

	for (struct dirent *e; s->mounts && (e = file_next(proc));) {
		pid_t pid = (pid_t)atol(e->d_name);
		auto_close int fd = pid == s->pid ? -1 : hold(pid);

		if (fd >= 0 && is_inside(s, dirfd(proc), e->d_name) && send_signal(fd, sig) == 0) {
			n++;
			if (pids)
				strv_add(pids, e->d_name);
		}
	}
	if (bundle_signal(s, sig) < 0)
		return n;
	if (pids)
		strv_addf(pids, "%ld", (long)s->pid);
	return n + 1;
}
