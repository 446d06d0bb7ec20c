/*
 * attack: tries to break out of a container from inside. Static, so that it runs in any image.
 *
 *   attack tty                        type into the terminal on stdin: TIOCSTI and TIOCLINUX, on
 * every ABI attack chroot MARKER              the classic ways out of a chroot: is /MARKER, a host
 * file, there? attack mounts RO COVER MARKER     uncover what is mounted over, make the read-only
 * directory RO writable; in this user namespace, then in a nested one attack ids become others:
 * setuid, setgroups, capabilities attack process PID                look into a process: ptrace,
 * memory, root, cwd, descriptors attack kernel                     write to files of /proc and /sys
 * that change the machine attack flip A B [US]              not an attack, but a race's other side:
 * exchange two names until killed attack dup FD COMMAND ARG...      nor this: run COMMAND with
 * stdin's file as descriptor FD as well
 *   attack key NAME                   read a key of the session
 *   attack keyed NAME COMMAND ARG...  nor this: run COMMAND in a session with such a key
 *
 * A line an attempt: "refused WHAT: errno's text" or "WORKED WHAT". Ends with 1 if any worked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int worked;

/* ok: it worked; else errno says why not. */
static int tell(int ok, const char *what)
{
	if (ok) {
		printf("WORKED %s\n", what);
		worked = 1;
	} else {
		printf("refused %s: %s\n", what, strerror(errno));
	}
	fflush(stdout);
	return ok;
}

/* --- the terminal ----------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* As a 32-bit program calls it: a filter for the 64-bit ABI alone does not see this one. */
static long ioctl_32(int fd, unsigned long request, void *arg)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(54), "b"(fd), "c"(request), "d"(arg)
			 : "memory");
	if (ret < 0) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}
#endif

static void attack_tty(void)
{
	char *c = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
#ifdef MAP_32BIT
		MAP_32BIT |
#endif
			MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);

	if (c == MAP_FAILED || !isatty(0)) {
		printf("no terminal\n");
		worked = 1;
		return;
	}
	*c = '#';
	tell(ioctl(0, TIOCSTI, c) == 0, "TIOCSTI");
	/* The kernel looks at 32 bits of the request (CVE-2019-10063). */
	tell(syscall(SYS_ioctl, 0, TIOCSTI | 1ul << 32, c) == 0, "TIOCSTI with high bits");
#if defined(__x86_64__)
	tell(ioctl_32(0, TIOCSTI, c) == 0, "TIOCSTI by int 0x80");
	tell(syscall(0x40000000 | 514, 0, (unsigned long)TIOCSTI, c) == 0, "TIOCSTI by x32");
#endif
	*c = 3; /* paste the selection */
	tell(ioctl(0, TIOCLINUX, c) == 0, "TIOCLINUX");
}

/* --- the root --------------------------------------------------------------------------------- */

static int is_there(const char *marker)
{
	struct stat st;

	return stat(marker, &st) == 0;
}

static void climb(void)
{
	for (int i = 0; i < 100; i++)
		if (chdir("..") < 0)
			break;
}

static void attack_chroot(const char *marker)
{
	int here = open("/", O_RDONLY | O_DIRECTORY);
	char path[4200];

	climb();
	tell(is_there(marker + 1), "climb by ..");
	tell(chroot("/proc/1/root") == 0 && is_there(marker), "chroot to the root of process 1");
	mkdir("/trap", 0700);
	if (tell(chroot("/trap") == 0, "chroot") && here >= 0) {
		/* The chroot itself is allowed to a fake root; it must not lead anywhere. */
		worked = 0;
		if (fchdir(here) == 0)
			climb();
		tell(chroot(".") == 0 && is_there(marker), "climb out of a chroot");
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d/../../../../../..%s", here, marker);
	tell(is_there(path), "climb from a descriptor");
	errno = 0;
	tell(syscall(SYS_pivot_root, ".", ".") == 0 && is_there(marker), "pivot_root");
	tell(syscall(SYS_open_by_handle_at, here, NULL, 0) == 0, "open_by_handle_at");
}

/* --- mounts ----------------------------------------------------------------------------------- */

static int can_write(const char *dir)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/written", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void uncover(const char *ro, const char *cover, const char *marker)
{
	struct mount_attr rw = { .attr_clr = MOUNT_ATTR_RDONLY };
	int fd;

	tell(can_write(ro), "write to a read-only directory");
	tell(mount(NULL, ro, NULL, MS_REMOUNT | MS_BIND, NULL) == 0 && can_write(ro),
		"remount it rw");
	tell(mount(NULL, ro, NULL, MS_REMOUNT, NULL) == 0 && can_write(ro),
		"remount its superblock rw");
	tell(syscall(SYS_mount_setattr, AT_FDCWD, ro, 0, &rw, sizeof(rw)) == 0 && can_write(ro),
		"mount_setattr rw");
	tell(umount2(cover, MNT_DETACH) == 0, "unmount a cover");
	tell(umount2("/proc", MNT_DETACH) == 0, "unmount /proc");
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE);
	tell(fd >= 0, "clone / without what is mounted on it");
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, cover, OPEN_TREE_CLONE | AT_RECURSIVE);
	if (fd >= 0)
		tell(syscall(SYS_move_mount, fd, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) ==
					0 &&
				umount2("/mnt", 0) == 0 && can_write("/mnt"),
			"clone a cover and look below it");
	tell(mount("/", "/mnt", NULL, MS_BIND, NULL) == 0 && is_there(marker), "bind / elsewhere");
	tell(mount("proc", "/mnt", "proc", 0, NULL) == 0, "mount a whole proc");
}

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd >= 0) {
		if (write(fd, text, strlen(text)) < 0)
			perror(file);
		close(fd);
	}
}

static void attack_mounts(const char *ro, const char *cover, const char *marker)
{
	unsigned uid = geteuid(), gid = getegid();
	char text[64];

	mkdir("/mnt", 0755);
	uncover(ro, cover, marker);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		printf("refused a nested user namespace: %s\n", strerror(errno));
		return;
	}
	printf("nested\n");
	put("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	put("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	put("/proc/self/gid_map", text);
	uncover(ro, cover, marker);
}

/* --- ids -------------------------------------------------------------------------------------- */

/* A line of status, as the kernel has it: a fake root's supervisor does not answer for it. */
static void read_line(const char *field, char line[512])
{
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, 512, f))
		if (strncmp(line, field, strlen(field)) == 0)
			break;
	if (f)
		fclose(f);
}

static int has_changed(const char *field, const char *was)
{
	char now[512] = "";

	read_line(field, now);
	return strcmp(was, now) != 0;
}

static void attack_ids(void)
{
	char groups[512] = "", uids[512] = "";
	gid_t group = getegid();
	uid_t real, effective, saved;
	int kept = 0;

	if (getresuid(&real, &effective, &saved) == 0)
		tell(real != effective || effective != saved, "run with another's uid");
	tell(getegid() != getgid(), "run with another's gid");
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		kept += prctl(PR_CAPBSET_READ, cap) == 1;
	errno = EPERM;
	if (geteuid() != 0)
		tell(kept != 0, "have capabilities in the bounding set");
	read_line("Groups:", groups);
	read_line("Uid:", uids);
	tell(setgroups(0, NULL) == 0 && has_changed("Groups:", groups), "drop all groups");
	tell(setgroups(1, &group) == 0 && has_changed("Groups:", groups), "set groups");
	tell(setresuid(12345, 12345, 12345) == 0 && has_changed("Uid:", uids), "become user 12345");
	if (geteuid() != 0)
		tell(setuid(0) == 0 && has_changed("Uid:", uids), "become root");
	tell(unshare(CLONE_NEWNET) == 0, "make a network namespace");
	errno = EPERM;
	tell(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1, "gain privileges by execve");
}

/* --- processes -------------------------------------------------------------------------------- */

static int opens(const char *path, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void attack_process(int pid)
{
	static const char *const files[] = { "mem", "environ", "maps", "root/etc/passwd", "cwd/.",
		"fd/0", "exe" };
	char byte, path[64];
	struct iovec mine = { &byte, 1 }, its = { (void *)0x400000, 1 };
	int fd;

	tell(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0, "ptrace");
	tell(process_vm_readv(pid, &mine, 1, &its, 1, 0) >= 0 || errno == EFAULT,
		"process_vm_readv");
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	tell(fd >= 0 && syscall(SYS_pidfd_getfd, fd, 0, 0) >= 0, "pidfd_getfd");
	tell(fd >= 0 && setns(fd, CLONE_NEWNS) == 0, "setns to its mounts");
	tell(fd >= 0 && setns(fd, CLONE_NEWUSER) == 0, "setns to its user namespace");
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		tell(opens(path, O_RDONLY), files[i]);
	}
}

/* What of this process can be seen: only what must not be is told. */
static void spy_on(const char *pid, const char *program, const char *marker)
{
	char path[4200], to[4200];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return;
	to[n] = '\0';
	name = strrchr(to, '/');
	if (name && strcmp(name + 1, program) == 0)
		tell(1, path);
	snprintf(path, sizeof(path), "/proc/%s/root%s", pid, marker);
	if (is_there(path))
		tell(1, path);
}

static void attack_spy(const char *program, const char *marker, const char *until)
{
	long rounds = 0;

	while (!is_there(until)) {
		DIR *proc = opendir("/proc");
		const struct dirent *e;

		while (proc && (e = readdir(proc)))
			if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
				spy_on(e->d_name, program, marker);
		if (proc)
			closedir(proc);
		if (rounds++ == 0)
			printf("refused at first\n");
		fflush(stdout);
	}
	printf("%ld rounds\n", rounds);
}

/* --- the kernel ------------------------------------------------------------------------------- */

static void attack_kernel(void)
{
	struct stat st;
	/* Opened, not written to: whoever may open them may write. */
	static const char *const files[] = { "/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
		"/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/drop_caches",
		"/proc/sys/fs/file-max", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger",
		"/proc/kcore", "/proc/kmsg", "/proc/irq/default_smp_affinity", "/proc/acpi",
		"/sys/kernel/uevent_helper", "/sys/kernel/debug/sched", "/sys/power/state",
		"/sys/firmware/efi/efivars", "/sys/fs/cgroup/cgroup.procs",
		"/sys/fs/cgroup/release_agent", "/sys/module/kernel/parameters/panic", "/dev/mem",
		"/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/mapper/control", "/dev/kvm" };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		tell(opens(files[i], O_WRONLY), files[i]);
	tell(sethostname("owned", 5) == 0, "sethostname");
	tell(mknod("/tmp/attack.device", S_IFBLK | 0600, 8 << 8) == 0 &&
			stat("/tmp/attack.device", &st) == 0 && S_ISBLK(st.st_mode),
		"mknod");
	unlink("/tmp/attack.device");
	tell(syscall(SYS_reboot, 0, 0, 0, 0) == 0, "reboot");
	tell(syscall(SYS_init_module, "", 0, "") == 0, "load a module");
}

/* --- keys ------------------------------------------------------------------------------------- */

static void attack_key(const char *name)
{
	char value[64] = "";
	long key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", name, 0);

	tell(key >= 0 && syscall(SYS_keyctl, KEYCTL_READ, key, value, sizeof(value)) > 0, name);
}

/* Run a command in a session with a key. */
static int run_with_key(const char *name, char **argv)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 ||
		syscall(SYS_add_key, "user", name, "CANARY", 6, KEY_SPEC_SESSION_KEYRING) < 0) {
		perror("add a key");
		return 77;
	}
	execvp(argv[0], argv);
	perror(argv[0]);
	return 1;
}

/* --- helpers of races ------------------------------------------------------------------------- */

/* With pauses of up to so many microseconds. */
static int flip(const char *a, const char *b, int pause_us)
{
	for (;; usleep(pause_us > 0 ? (useconds_t)(rand() % pause_us) : 0))
		if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2 /* RENAME_EXCHANGE */) < 0) {
			perror("flip");
			return 1;
		}
}

static int run_with(int fd, char **argv)
{
	if (dup2(0, fd) < 0) {
		perror("dup");
		return 1;
	}
	execvp(argv[0], argv);
	perror(argv[0]);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "tty") == 0 && argc == 2)
		attack_tty();
	else if (strcmp(what, "chroot") == 0 && argc == 3)
		attack_chroot(argv[2]);
	else if (strcmp(what, "mounts") == 0 && argc == 5)
		attack_mounts(argv[2], argv[3], argv[4]);
	else if (strcmp(what, "ids") == 0 && argc == 2)
		attack_ids();
	else if (strcmp(what, "process") == 0 && argc == 3)
		attack_process(atoi(argv[2]));
	else if (strcmp(what, "spy") == 0 && argc == 5)
		attack_spy(argv[2], argv[3], argv[4]);
	else if (strcmp(what, "kernel") == 0 && argc == 2)
		attack_kernel();
	else if (strcmp(what, "key") == 0 && argc == 3)
		attack_key(argv[2]);
	else if (strcmp(what, "keyed") == 0 && argc > 3)
		return run_with_key(argv[2], argv + 3);
	else if (strcmp(what, "flip") == 0 && argc == 4)
		return flip(argv[2], argv[3], 0);
	else if (strcmp(what, "flip") == 0 && argc == 5)
		return flip(argv[2], argv[3], atoi(argv[4]));
	else if (strcmp(what, "dup") == 0 && argc > 3)
		return run_with(atoi(argv[2]), argv + 3);
	else {
		fprintf(stderr, "usage: see tests/inside/attack.c\n");
		return 2;
	}
	return worked;
}
