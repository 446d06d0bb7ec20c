/* The fake root's answers on files: owners, modes, attributes. */
#include "fakeroot/asked.h"

#include "fakeroot/rights.h"

#include <sys/xattr.h>

/* Open the file to change what is known of it. */
static int open_any(const struct asked *a, struct stat *st)
{
	auto_close int fd = asked_file(a);

	if (fd < 0)
		return fd;
	if (fstat(fd, st) < 0)
		return -errno;
	if (fakeroot_records_refuse(st))
		return -EPERM;
	return asked_waits(a) ? take_fd(&fd) : -ENOENT;
}

/* The same, as root may alone. */
static int open_to_change(const struct asked *a, struct stat *st)
{
	auto_close int fd = open_any(a, st);

	return fd < 0 || !fakeroot_ids_of_user(a) ? take_fd(&fd) : -EPERM;
}

/* --- owners ---------------------------------------------------------------------- */

/* What the kernel does besides: refuse another user's file, clear set-ID bits, set the time. */
static int chown_to_root(int fd)
{
	return fchownat(fd, "", (uid_t)-1, 0, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static void drop_capability(int fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	(void)removexattr(link, FILE_OWNER_CAPABILITY);
}

/* May it give the file away? Only root may; but a file's owner may give it a group of its own. */
static int may_chown(const struct asked *a, const struct file_owner *o, uint32_t uid, uint32_t gid)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of_user(a);

	if (!ids)
		return 1;
	if (o->uid != ids->fsuid || (uid != (uint32_t)-1 && uid != o->uid))
		return 0;
	return gid == (uint32_t)-1 || gid == o->gid || fakeroot_ids_has_group(ids, gid);
}

static int answer_chown(const struct asked *a)
{
	int at = a->what == FAKEROOT_FCHOWNAT, is_recorded;
	uint32_t uid = asked_id(a, at ? 2 : 1), gid = asked_id(a, at ? 3 : 2);
	auto_close int fd = -1;
	struct file_owner o;
	struct stat st;

	if (at && ((int)asked_arg(a, 4) & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)))
		return -EINVAL;
	fd = open_any(a, &st);
	if (fd < 0)
		return fd;
	is_recorded = fakeroot_records_find(fd, &st, &o);
	if (!may_chown(a, &o, uid, gid))
		return -EPERM;
	TRY(chown_to_root(fd));
	if (uid != (uint32_t)-1)
		o.uid = uid;
	if (gid != (uint32_t)-1)
		o.gid = gid;
	if (S_ISREG(st.st_mode)) {
		o.mode &= ~(mode_t)(S_ISUID | (o.mode & S_IXGRP ? S_ISGID : 0));
		if (fakeroot_records_has_attributes(fd))
			drop_capability(fd);
	}
	if (is_recorded || o.uid || o.gid)
		fakeroot_records_set(fd, &st, &o);
	return 0;
}

/* --- looking for records ------------------------------------------------------------- */

/* Has the file surely no record, or no recorded mode? That is so for most, and soon found out. fd
 * gets the process's descriptor if the call names the file by that. */
static int lacks_record(const struct asked *a, int only_mode, int *fd)
{
	char name[ASKED_NAME_SIZE];
	struct asked_name how;

	if (!asked_name(a, name, &how))
		return 0;
	if (how.number >= 0)
		*fd = asked_borrow(a, how.number);
	return only_mode ? fakeroot_records_lack_mode(name, *fd)
			 : fakeroot_records_lack(name, how.follow, *fd);
}

/* --- stat and chmod ----------------------------------------------------------------- */

/* Open a call's file if it may have a record, or a recorded mode. Returns the descriptor, or -1. */
static int open_recorded(
	const struct asked *a, int only_mode, struct stat *st, struct file_owner *o)
{
	auto_close int fd = -1;

	if (lacks_record(a, only_mode, &fd))
		return -1;
	if (fd < 0)
		fd = asked_file(a);
	if (fd < 0 || fstat(fd, st) < 0 || !fakeroot_records_find(fd, st, o))
		return -1;
	return take_fd(&fd);
}

static int answer_statx(
	const struct asked *a, int fd, const struct stat *st, const struct file_owner *o)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | ((int)asked_arg(a, 2) & AT_STATX_SYNC_TYPE),
		    (unsigned)asked_arg(a, 3), &x) < 0)
		return -errno;
	x.stx_uid = o->uid;
	x.stx_gid = o->gid;
	x.stx_mode = (uint16_t)file_owner_mode(o, st->st_mode);
	return asked_write(a, asked_arg(a, 4), &x, sizeof(x));
}

/* Whatever goes wrong here, the kernel's own answer is right. */
static int answer_stat(struct asked *a)
{
	struct file_owner o;
	struct stat st;
	auto_close int fd = open_recorded(a, 0, &st, &o);

	if (fd < 0)
		return asked_pass(a);
	if (a->what == FAKEROOT_STATX)
		return answer_statx(a, fd, &st, &o);
	st.st_mode = file_owner_mode(&o, st.st_mode);
	st.st_uid = o.uid;
	st.st_gid = o.gid;
	/* glibc's struct stat is the kernel's on 64-bit ABIs. */
	return asked_write(a, asked_arg(a, a->what == FAKEROOT_FSTATAT ? 2 : 1), &st, sizeof(st));
}

static int may_chmod(const struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of_user(a);
	auto_close int fd = ids ? asked_file(a) : -1;

	return fd < 0 || fakeroot_owns(ids, fd);
}

/* The kernel changes the mode; a recorded one must not outlive that. */
static int answer_chmod(struct asked *a)
{
	int at = a->what == FAKEROOT_FCHMODAT || a->what == FAKEROOT_FCHMODAT2;
	struct file_owner o;
	struct stat st;
	auto_close int fd = -1;

	if (!may_chmod(a))
		return -EPERM;
	fd = open_recorded(a, 1, &st, &o);
	if (fd < 0 || !o.mode || fakeroot_records_refuse(&st) || !asked_waits(a))
		return asked_pass(a);
	o.mode = (mode_t)asked_arg(a, at ? 2 : 1) & 07777;
	fakeroot_records_set(fd, &st, &o);
	return asked_pass(a);
}

/* --- file capabilities ------------------------------------------------------------------ */

/* Is the attribute "security.capability", or another one of "security."? */
static int is_capability(const struct asked *a, int *is_security)
{
	char name[256];
	int r = asked_text(a, asked_arg(a, 1), name, sizeof(name));

	*is_security = r == 0 && strncmp(name, "security.", 9) == 0;
	return *is_security && strcmp(name + 9, "capability") == 0;
}

static int set_capability(const struct asked *a)
{
	size_t len = (size_t)asked_arg(a, 3);
	unsigned char value[24];
	auto_close int fd = -1;
	char link[32];
	struct stat st;

	if (len > sizeof(value) || asked_read(a, asked_arg(a, 2), value, len) < 0)
		return len > sizeof(value) ? -EINVAL : -EFAULT;
	if (!file_owner_is_capability(value, len))
		return -EINVAL;
	fd = open_to_change(a, &st);
	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (setxattr(link, FILE_OWNER_CAPABILITY, value, len, (int)asked_arg(a, 4)) == 0)
		return 0;
	/* Where it cannot be kept, it is forgotten. */
	return errno == EEXIST || errno == ENODATA || errno == EINVAL ? -errno : 0;
}

#define ACL_READ 4096 /* bytes of an attribute that are looked at: 511 entries */

/* Does a POSIX ACL, acl(5), name users or groups? An entry has a tag and permissions, 16 bits each,
 * and an id; four bytes precede the first (linux/posix_acl_xattr.h). */
static int names_ids(const struct asked *a)
{
	size_t len = (size_t)asked_arg(a, 3);
	unsigned char value[ACL_READ];

	if (len > sizeof(value))
		len = sizeof(value);
	if (len < 4 || asked_read(a, asked_arg(a, 2), value, len) < 0)
		return 0;
	for (size_t i = 4; i + 8 <= len; i += 8)
		if (value[i] == 0x02 || value[i] == 0x08) /* ACL_USER, ACL_GROUP */
			return 1;
	return 0;
}

static int is_acl(const struct asked *a)
{
	char name[256];

	return asked_text(a, asked_arg(a, 1), name, sizeof(name)) == 0 &&
		(strcmp(name, "system.posix_acl_access") == 0 ||
			strcmp(name, "system.posix_acl_default") == 0);
}

/* Attributes of "security." cannot be set by the one mapped id, nor ACLs that name others. Docker's
 * layers have no ACLs, either. */
static int answer_setxattr(struct asked *a)
{
	int is_security;

	if (is_acl(a) && names_ids(a))
		return !fakeroot_ids_of_user(a) ? 0 : -EPERM;

	if (is_capability(a, &is_security))
		return set_capability(a);
	return is_security ? 0 : asked_pass(a);
}

static int answer_getxattr(struct asked *a)
{
	char link[32];
	unsigned char value[64];
	auto_close int fd = -1;
	int is_security;
	ssize_t n;

	if (!is_capability(a, &is_security) || lacks_record(a, 0, &fd))
		return asked_pass(a);
	if (fd < 0)
		fd = asked_file(a);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = fd < 0 ? -1 : getxattr(link, FILE_OWNER_CAPABILITY, value, sizeof(value));
	if (n < 0)
		return asked_pass(a);
	if (asked_arg(a, 3) == 0)
		return (int)n;
	if (asked_arg(a, 3) < (uint64_t)n)
		return -ERANGE;
	return asked_write(a, asked_arg(a, 2), value, (size_t)n) < 0 ? -EFAULT : (int)n;
}

static int answer_removexattr(struct asked *a)
{
	auto_close int fd = -1;
	int is_security;
	char link[32];
	struct stat st;

	if (!is_capability(a, &is_security))
		return asked_pass(a);
	fd = open_to_change(a, &st);
	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return removexattr(link, FILE_OWNER_CAPABILITY) < 0 ? -errno : 0;
}

/* Leave out the names of records. */
static int answer_listxattr(struct asked *a)
{
	auto_close int fd = -1;
	size_t size = (size_t)asked_arg(a, 2), kept = 0;
	char link[32], names[XATTR_LIST_MAX];
	ssize_t n;

	if (lacks_record(a, 0, &fd))
		return asked_pass(a);
	if (fd < 0)
		fd = asked_file(a);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = fd < 0 ? -1 : listxattr(link, names, sizeof(names));
	if (n < 0)
		return asked_pass(a);
	for (ssize_t at = 0, len; at < n; at += len) {
		len = (ssize_t)strlen(names + at) + 1;
		if (file_owner_is_xattr(names + at))
			continue;
		memmove(names + kept, names + at, (size_t)len);
		kept += (size_t)len;
	}
	if (size > 0 && size < kept)
		return -ERANGE;
	return size > 0 && asked_write(a, asked_arg(a, 1), names, kept) < 0 ? -EFAULT : (int)kept;
}

int fakeroot_files_answer(struct asked *a)
{
	if (a->what <= FAKEROOT_FCHOWNAT)
		return answer_chown(a);
	if (a->what <= FAKEROOT_FSETXATTR)
		return answer_setxattr(a);
	if (a->what <= FAKEROOT_FGETXATTR)
		return answer_getxattr(a);
	if (a->what <= FAKEROOT_FREMOVEXATTR)
		return answer_removexattr(a);
	if (a->what <= FAKEROOT_FLISTXATTR)
		return answer_listxattr(a);
	return a->what <= FAKEROOT_STATX ? answer_stat(a) : answer_chmod(a);
}
