#include "fakeroot/records.h"

#include "base/base.h"
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
		if (own[i].st_mode && st->st_ino == own[i].st_ino && st->st_dev == own[i].st_dev)
			return 1;
	return 0;
}

static int has_xattrs(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode);
}

int fakeroot_records_lack(const char *name, int follow)
{
	ssize_t n = follow ? listxattr(name, NULL, 0) : llistxattr(name, NULL, 0);
	int has_none = n < 0 && errno == EOPNOTSUPP;
	struct stat st;

	if (n > 0)
		return 0;
	if (!owners_file_has_any(&owners))
		return 1;
	if (n < 0)
		return !has_none;
	return (follow ? stat(name, &st) : lstat(name, &st)) == 0 && has_xattrs(st.st_mode);
}

int fakeroot_records_lack_fd(int fd)
{
	ssize_t n = flistxattr(fd, NULL, 0);
	struct stat st;

	if (n > 0 || (n < 0 && errno == EBADF)) /* O_PATH */
		return 0;
	if (!owners_file_has_any(&owners))
		return 1;
	return n == 0 && fstat(fd, &st) == 0 && has_xattrs(st.st_mode);
}

/* "/proc/self/fd/N", and what that leads to. */
struct place {
	char link[32], path[PATH_MAX];
};

static void find_place(int fd, struct place *p)
{
	ssize_t n;

	snprintf(p->link, sizeof(p->link), "/proc/self/fd/%d", fd);
	n = readlink(p->link, p->path, sizeof(p->path) - 1);
	p->path[n > 0 ? n : 0] = '\0';
}

static int find_in_file(int fd, struct file_owner *ret)
{
	struct owners_file_key key;
	struct place p;

	find_place(fd, &p);
	return owners_file_key_of(fd, "", AT_EMPTY_PATH, p.path, &key) == 0 &&
		owners_file_find(&owners, &key, ret);
}

int fakeroot_records_has_attributes(int fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return listxattr(link, NULL, 0) > 0;
}

int fakeroot_records_find(int fd, const struct stat *st, struct file_owner *ret)
{
	char link[32];

	*ret = (struct file_owner){ 0, 0, 0 };
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (has_xattrs(st->st_mode) && listxattr(link, NULL, 0) > 0 && file_owner_get(link, ret))
		return 1;
	return owners_file_has_any(&owners) && find_in_file(fd, ret);
}

void fakeroot_records_set(int fd, const struct stat *st, const struct file_owner *o)
{
	struct owners_file_key key;
	struct place p;

	find_place(fd, &p);
	if (has_xattrs(st->st_mode) && file_owner_set(p.link, o) == 0)
		return;
	if (owners_file_key_of(fd, "", AT_EMPTY_PATH, p.path, &key) < 0)
		return;
	/* What cannot be written is known at least as long as this process runs. */
	(void)owners_file_set(&owners, &key, o);
}
