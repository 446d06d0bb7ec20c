/*
 * identity: what processes of a fake root do to their ids and files.
 *
 *   identity drop [keep]
 *       set user, group and groups, in this order, as setpriv(1) does; "keep" with
 *       PR_SET_KEEPCAPS. Print what the calls return, and the ids
 *   identity acl FILE
 *       set an ACL that names a user, then one that does not; print the modes
 *   identity who
 *       print the real and effective ids
 *   identity make
 *       make files by open(2)'s O_TMPFILE, openat2(2) and mknod(2), and change one
 *   identity may FILE...
 *       print whether access(2), and faccessat(2) by the effective ids, allow writing
 *   identity list FILE
 *       print the names of its extended attributes
 */
#include <endian.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static int drop(int keep)
{
	gid_t one = 7;
	int uid, gid, groups;

	if (keep)
		prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	uid = setresuid(33, 33, 33);
	gid = setresgid(34, 34, 34);
	groups = setgroups(1, &one);
	return printf("%d %d %d: %d:%d\n", uid, gid, groups, (int)getuid(), (int)getgid()) < 0;
}

/* linux/posix_acl_xattr.h */
struct entry {
	uint16_t tag, perm;
	uint32_t id;
};

static int set(const char *file, const struct entry *v, size_t n)
{
	struct {
		uint32_t version;
		struct entry v[8];
	} acl = { htole32(2), { { 0 } } };
	struct stat st;

	for (size_t i = 0; i < n; i++)
		acl.v[i] =
			(struct entry){ htole16(v[i].tag), htole16(v[i].perm), htole32(v[i].id) };
	if (setxattr(file, "system.posix_acl_access", &acl, 4 + n * sizeof(*v), 0) < 0 ||
		stat(file, &st) < 0) {
		perror(file);
		return 1;
	}
	return printf("%o\n", (unsigned)st.st_mode & 0777) < 0;
}

static int acl(const char *file)
{
	static const struct entry named[] = { { 1, 6, ~0u }, { 2, 7, 1000 }, { 4, 4, ~0u },
		{ 16, 7, ~0u }, { 32, 0, ~0u } };
	static const struct entry plain[] = { { 1, 6, ~0u }, { 4, 4, ~0u }, { 32, 0, ~0u } };

	return set(file, named, 5) || set(file, plain, 3);
}

static int make(void)
{
	struct open_how how = { .flags = O_CREAT | O_RDWR, .mode = 0666 };
	int fd = open(".", O_TMPFILE | O_RDWR, 0660);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || linkat(AT_FDCWD, path, AT_FDCWD, "tmpfile", AT_SYMLINK_FOLLOW) < 0)
		perror("tmpfile");
	if (syscall(SYS_openat2, AT_FDCWD, "openat2", &how, sizeof(how)) < 0)
		perror("openat2");
	if (mknod("fifo", S_IFIFO | 0620, 0) < 0 || mknod("file", S_IFREG | 0604, 0) < 0)
		perror("mknod");
	if (mknod("device", S_IFCHR | 0600, 0x103) == 0)
		puts("a device");
	return 0;
}

static int may(char *const *files)
{
	for (; *files; files++)
		printf("%s %s %s\n", *files, access(*files, W_OK) == 0 ? "yes" : "no",
			faccessat(AT_FDCWD, *files, W_OK | X_OK, AT_EACCESS) == 0 ? "yes" : "no");
	return 0;
}

static int list(const char *file)
{
	char names[4096];
	ssize_t n = listxattr(file, names, sizeof(names));

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1)
		puts(names + i);
	return n != listxattr(file, NULL, 0) || n < 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "who") == 0)
		return printf("%d:%d %d:%d\n", (int)getuid(), (int)getgid(), (int)geteuid(),
			       (int)getegid()) < 0;
	if (argc == 2 && strcmp(argv[1], "make") == 0)
		return make();
	if (argc > 2 && strcmp(argv[1], "may") == 0)
		return may(argv + 2);
	if (argc == 3 && strcmp(argv[1], "list") == 0)
		return list(argv[2]);
	if (argc > 1 && strcmp(argv[1], "drop") == 0)
		return drop(argc > 2);
	return argc == 3 ? acl(argv[2]) : 2;
}
