#include "fakeroot/records.h"

#include "base/owners_file.h"

#include <sys/xattr.h>

static struct owners_file owners = OWNERS_FILE_INIT;
static struct stat own[2]; /* the program, and the file of owners */

void fakeroot_records_open(int fd)
{
	owners_file_open(&owners, fd);
	if (stat("/proc/self/exe", &own[0]) < 0)
		own[0] = (struct stat){ 0 };
	if (fd < 0 || fstat(fd, &own[1]) < 0)
		own[1] = (struct stat){ 0 };
}

int fakeroot_records_refuse(const struct stat *st)
{
	for (size_t i = 0; i < 2; i++)
		if (own[i].st_mode && file_is_one(st, &own[i]))
			return 1;
	return 0;
}

static int has_xattrs(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode);
}

int fakeroot_records_lack(const char *name, int follow, int fd)
{
	ssize_t n = fd >= 0 ? flistxattr(fd, NULL, 0)
		: follow    ? listxattr(name, NULL, 0)
			    : llistxattr(name, NULL, 0);
	int has_none = n < 0 && errno == EOPNOTSUPP;
	struct stat st;

	if (n > 0 || (n < 0 && errno == EBADF)) /* O_PATH */
		return 0;
	if (!owners_file_has_any(&owners))
		return 1;
	if (n < 0)
		return !has_none;
	return fstatat(fd >= 0 ? fd : AT_FDCWD, fd >= 0 ? "" : name, &st,
		       (fd >= 0 ? AT_EMPTY_PATH : 0) | (follow ? 0 : AT_SYMLINK_NOFOLLOW)) == 0 &&
		has_xattrs(st.st_mode);
}

int fakeroot_records_lack_mode(const char *name, int fd)
{
	ssize_t n = fd < 0 ? getxattr(name, FILE_OWNER_MODE, NULL, 0)
			   : fgetxattr(fd, FILE_OWNER_MODE, NULL, 0);

	return n < 0 && errno != EBADF; /* O_PATH */
}

static void put_link(int fd, char link[32])
{
	snprintf(link, 32, "/proc/self/fd/%d", fd);
}

/* What distinguishes a file for the owners_file. Only then its path is looked up, which takes time.
 */
static int find_key(int fd, char path[PATH_MAX], struct owners_file_key *ret)
{
	char link[32];
	ssize_t n;

	put_link(fd, link);
	n = readlink(link, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
	return owners_file_key_of(fd, "", AT_EMPTY_PATH, path, ret);
}

int fakeroot_records_has_attributes(int fd)
{
	char link[32];

	put_link(fd, link);
	return listxattr(link, NULL, 0) > 0;
}

int fakeroot_records_find(int fd, const struct stat *st, struct file_owner *ret)
{
	struct owners_file_key key;
	char link[32], path[PATH_MAX], names[512];
	ssize_t n = -1;

	*ret = (struct file_owner){ 0, 0, 0 };
	put_link(fd, link);
	if (has_xattrs(st->st_mode))
		n = listxattr(link, names, sizeof(names));
	if (n >= 0) /* its own record is the only one */
		return n > 0 && file_owner_get_listed(link, names, (size_t)n, ret);
	if (errno == ERANGE && has_xattrs(st->st_mode))
		return file_owner_get(link, ret);
	return owners_file_has_any(&owners) && find_key(fd, path, &key) == 0 &&
		owners_file_find(&owners, &key, ret);
}

void fakeroot_records_set(int fd, const struct stat *st, const struct file_owner *o)
{
	struct owners_file_key key;
	char link[32], path[PATH_MAX];

	put_link(fd, link);
	if (has_xattrs(st->st_mode) && file_owner_set(link, o) == 0)
		return;
	/* What cannot be written is known at least as long as this process runs. */
	if (find_key(fd, path, &key) == 0)
		(void)owners_file_set(&owners, &key, o);
}
