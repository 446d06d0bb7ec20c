/*
 * identity: what processes of a fake root do to their ids and files' ACLs.
 *
 *   identity drop [keep]  set user, group and groups, in this order, as setpriv(1) does; "keep"
 * with PR_SET_KEEPCAPS. Print what the calls return, and the ids identity acl FILE     set an ACL
 * that names a user, then one that does not; print the modes
 */
#include <endian.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "drop") == 0)
		return drop(argc > 2);
	return argc == 3 ? acl(argv[2]) : 2;
}
