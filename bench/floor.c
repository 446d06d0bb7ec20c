/*
 * floor: the least that a rootless container start can do, to compare `mlrun exec` with.
 *
 *   floor ROOT CMD ARG...             ROOT bound on itself
 *   floor LOWER:LOWER... ROOT CMD...  an overlay of these trees on ROOT
 *
 * unshare(user, mount), one-id maps, one mount, pivot_root, execve: no /proc, no /dev, no
 * environment, no checks. Built static, since that is faster to load.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
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

int main(int argc, char **argv)
{
	const char *lowers = argc > 3 && strchr(argv[1], ':') ? *++argv : NULL;
	unsigned uid = geteuid(), gid = getegid();
	char text[8192];

	must(argc > 2, "usage: floor [LOWERS] ROOT CMD...");
	must(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare");
	put("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	put("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	put("/proc/self/gid_map", text);
	must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "make / private");
	if (lowers) {
		snprintf(text, sizeof(text), "lowerdir=%s", lowers);
		must(mount("floor", argv[1], "overlay", 0, text) == 0, "mount the overlay");
	} else {
		must(mount(argv[1], argv[1], NULL, MS_BIND | MS_REC, NULL) == 0, "bind the root");
	}
	must(chdir(argv[1]) == 0, "chdir");
	must(syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root");
	must(umount2(".", MNT_DETACH) == 0, "umount");
	must(chdir("/") == 0, "chdir /");
	execv(argv[2], argv + 2);
	must(0, argv[2]);
}
