/*
 * floor: the least that a rootless container start can do, to compare `mlrun exec` with.
 *
 *   floor [-b] [-p] ROOT CMD ARG...             ROOT bound on itself
 *   floor [-b] [-p] LOWER:LOWER... ROOT CMD...  an overlay of these trees on ROOT
 *
 * unshare(user, mount), one-id maps, one mount, pivot_root, execve: no environment, no checks, no
 * account, nothing that can be written to. Built static, since that is faster to load.
 *
 *   -b  bind the host's /proc, /dev and /sys, recursively
 *   -p  a PID namespace with a /proc of its own; the parent waits
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		_exit(125);
	}
}

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	must(fd >= 0 && write(fd, text, strlen(text)) > 0 && close(fd) == 0, file);
}

static void map_ids(unsigned uid, unsigned gid)
{
	char text[64];

	put("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	put("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	put("/proc/self/gid_map", text);
}

/* Only a child is in a new PID namespace; its parent ends as it does. */
static void fork_and_wait(void)
{
	int status;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0)
		return;
	must(waitpid(pid, &status, 0) == pid, "wait");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void mount_root(const char *lowers, const char *root)
{
	char text[8192];

	must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "make / private");
	if (lowers) {
		snprintf(text, sizeof(text), "lowerdir=%s,userxattr", lowers);
		must(mount("floor", root, "overlay", 0, text) == 0, "mount the overlay");
	} else {
		must(mount(root, root, NULL, MS_BIND | MS_REC, NULL) == 0, "bind the root");
	}
	must(chdir(root) == 0, "chdir");
}

int main(int argc, char **argv)
{
	int binds = 0, pid_ns = 0, option;
	const char *lowers = NULL;
	unsigned uid = geteuid(), gid = getegid();

	while ((option = getopt(argc, argv, "+bp")) != -1) {
		must(option != '?', "usage: floor [-b] [-p] [LOWERS] ROOT CMD...");
		binds |= option == 'b';
		pid_ns |= option == 'p';
	}
	argv += optind;
	if (argv[0] && strchr(argv[0], ':'))
		lowers = *argv++;
	must(argv[0] && argv[1], "usage: floor [-b] [-p] [LOWERS] ROOT CMD...");

	must(unshare(CLONE_NEWUSER | CLONE_NEWNS | (pid_ns ? CLONE_NEWPID : 0)) == 0, "unshare");
	map_ids(uid, gid);
	if (pid_ns)
		fork_and_wait();
	mount_root(lowers, argv[0]);
	if (pid_ns)
		must(mount("proc", "proc", "proc", 0, NULL) == 0, "mount proc");
	else if (binds)
		must(mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) == 0, "bind /proc");
	if (binds) {
		must(mount("/dev", "dev", NULL, MS_BIND | MS_REC, NULL) == 0, "bind /dev");
		must(mount("/sys", "sys", NULL, MS_BIND | MS_REC, NULL) == 0, "bind /sys");
	}
	must(syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root");
	must(umount2(".", MNT_DETACH) == 0, "umount");
	must(chdir("/") == 0, "chdir /");
	execv(argv[1], argv + 1);
	must(0, argv[1]);
}
