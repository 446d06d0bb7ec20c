#include "runtime/userns.h"

#include "runtime/runtime.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Read the first number in a sysctl's file below root, or -1. */
static long read_sysctl(const char *root, const char *name)
{
	auto_free char *path = xasprintf("%s/proc/sys/%s", root, name);
	auto_free char *text = NULL;

	if (file_read(AT_FDCWD, path, 64, &text, NULL, NULL) < 0)
		return -1;
	return atol(text);
}

void runtime_hint_userns(const char *root, struct mlr_error *err)
{
	if (strcmp(root, "/") == 0)
		root = "";
	if (read_sysctl(root, "user/max_user_namespaces") == 0)
		mlr_hint(err,
			"user.max_user_namespaces is 0; an administrator can allow user namespaces: "
			"sysctl -w user.max_user_namespaces=15000");
	else if (read_sysctl(root, "user/max_mnt_namespaces") == 0)
		mlr_hint(err,
			"user.max_mnt_namespaces is 0; an administrator can allow mount namespaces: "
			"sysctl -w user.max_mnt_namespaces=15000");
	else if (read_sysctl(root, "kernel/unprivileged_userns_clone") == 0)
		mlr_hint(err,
			"kernel.unprivileged_userns_clone is 0; an administrator can allow it: "
			"sysctl -w kernel.unprivileged_userns_clone=1");
	else if (read_sysctl(root, "kernel/apparmor_restrict_unprivileged_userns") == 1)
		mlr_hint(err,
			"AppArmor restricts user namespaces (Ubuntu 23.10 and later); an administrator "
			"can allow them to mlrun with a profile that says 'userns,' or to all: "
			"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
	else if (err->code == ENOSPC)
		mlr_hint(err,
			"a limit on namespaces is reached: see user.max_user_namespaces and "
			"user.max_mnt_namespaces, of this user namespace and those around it");
	else if (err->code == ENOSYS || err->code == EINVAL)
		mlr_hint(err, "this kernel was built without user namespaces (CONFIG_USER_NS)");
	else if (err->code == EPERM)
		mlr_hint(err,
			"inside another container its seccomp profile or a chroot may forbid it");
}

static int put_file(const char *path, const char *text, struct mlr_error *err)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	return mlr_result(err, file_write_all(fd, text, strlen(text)), "write '%s'", path);
}

static int write_maps(const struct plan_identity *id, struct mlr_error *err)
{
	char line[64];

	/* An unprivileged gid map requires setgroups(2) to be denied first (user_namespaces(7));
	 * supplementary groups stay in force, unmapped. */
	TRY(put_file("/proc/self/setgroups", "deny", err));
	snprintf(line, sizeof(line), "%u %u 1\n", (unsigned)id->uid, (unsigned)id->host_uid);
	TRY(put_file("/proc/self/uid_map", line, err));
	snprintf(line, sizeof(line), "%u %u 1\n", (unsigned)id->gid, (unsigned)id->host_gid);
	return put_file("/proc/self/gid_map", line, err);
}

/*
 * For root, forbid cgroup namespaces: in one of its own, a process may mount the host's control
 * groups again, where root's user id may write. Kernels without these namespaces lack the file. In
 * Docker's containers it is read-only, as are the control groups.
 */
static int close_cgroups(const struct plan_identity *id, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	int r = id->host_uid == 0 ? put_file("/proc/sys/user/max_cgroup_namespaces", "0", &why) : 0;

	return r == 0 || r == -ENOENT || r == -EROFS ? 0 : mlr_pass(err, why.code, why.text);
}

/* The last step in both cases: mounts made here must not propagate. */
static int own_mounts(struct mlr_error *err)
{
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
		int r = mlr_fail_errno(err, "make the mounts of the new namespace its own");

		runtime_hint_userns("/", err);
		return r;
	}
	return 0;
}

int userns_enter(const struct plan_identity *id, struct mlr_error *err)
{
	int r;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		r = mlr_fail_errno(err, "create user and mount namespaces");
		runtime_hint_userns("/", err);
		return r;
	}
	r = write_maps(id, err);
	if (r < 0) {
		runtime_hint_userns("/", err);
		return r;
	}
	TRY(close_cgroups(id, err));
	/* Other processes of this user must not inspect the set-up. This comes after the maps,
	 * which could not be written otherwise. execve(2) resets it. */
	prctl(PR_SET_DUMPABLE, 0);
	return own_mounts(err);
}

int userns_enter_shared(const struct plan *p, int userns, struct mlr_error *err)
{
	if (p->in_user_namespace)
		TRY(close_cgroups(&p->id, err));
	if (userns >= 0 && setns(userns, CLONE_NEWUSER) < 0)
		return mlr_fail_errno(err, "enter the user namespace of the image's containers");
	prctl(PR_SET_DUMPABLE, 0); /* as above */
	if (unshare(CLONE_NEWNS) < 0) {
		int r = mlr_fail_errno(err, "create a mount namespace");

		runtime_hint_userns("/", err);
		return r;
	}
	return own_mounts(err);
}

int userns_clone_flags(unsigned namespaces)
{
	return (namespaces & PLAN_NS_PID ? CLONE_NEWPID : 0) |
		(namespaces & PLAN_NS_IPC ? CLONE_NEWIPC : 0) |
		(namespaces & PLAN_NS_NET ? CLONE_NEWNET : 0) |
		(namespaces & PLAN_NS_UTS ? CLONE_NEWUTS : 0);
}

/* Bring up loopback: a new network namespace starts with it down. */
static int loopback_up(struct mlr_error *err)
{
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return mlr_fail_errno(err, "bring up loopback in the container's network");
	return 0;
}

int userns_add(const struct plan *p, struct mlr_error *err)
{
	if (!p->namespaces)
		return 0;
	if (unshare(userns_clone_flags(p->namespaces)) < 0) {
		int r = mlr_fail_errno(err, "create the container's other namespaces");

		if (r == -ENOSPC)
			mlr_hint(err, "a limit on namespaces is reached: see /proc/sys/user");
		return r;
	}
	if ((p->namespaces & PLAN_NS_UTS) && p->hostname &&
		sethostname(p->hostname, strlen(p->hostname)) < 0)
		return mlr_fail_errno(err, "set the container's hostname to '%s'", p->hostname);
	return p->namespaces & PLAN_NS_NET ? loopback_up(err) : 0;
}
