#include "rootfs/place.h"

#include <sys/sendfile.h>
#include <sys/xattr.h>

#define XATTR_LIST_MAX 65536 /* the kernel's own limit (xattr(7)) */

void rootfs_place_xattrs(int from, int to)
{
	auto_free char *names = NULL, *value = NULL;
	ssize_t n = flistxattr(from, NULL, 0), len;

	if (n <= 0)
		return;
	names = malloc(XATTR_LIST_MAX);
	value = malloc(XATTR_LIST_MAX);
	n = names && value ? flistxattr(from, names, XATTR_LIST_MAX) : 0;
	for (const char *s = names; s && s < names + n; s += strlen(s) + 1) {
		if (strncmp(s, "user.", 5) != 0 || strncmp(s, "user.overlay.", 13) == 0)
			continue;
		len = fgetxattr(from, s, value, XATTR_LIST_MAX);
		if (len < 0 || fsetxattr(to, s, value, (size_t)len, 0) < 0)
			mlr_debug("rootfs: xattr '%s': %s, ignoring", s, strerror(errno));
	}
}

/* Copy the file's data and skip its holes. */
static int copy_data(int from, int to, off_t size)
{
	off_t at = 0, end;

	while ((at = lseek(from, at, SEEK_DATA)) >= 0 && at < size) {
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0 || lseek(to, at, SEEK_SET) < 0)
			return -errno;
		while (at < end) {
			/* copy_file_range(2) does not cross file systems. */
			ssize_t n = sendfile(to, from, &at, (size_t)(end - at));

			if (n <= 0)
				return n < 0 ? -errno : -EIO;
		}
	}
	if (at < 0 && errno != ENXIO) /* no data from here on */
		return -errno;
	return ftruncate(to, size) < 0 ? -errno : 0;
}

static int copy_file(int from_dir, int to_dir, const char *name, const struct stat *sb)
{
	auto_close int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int to = -1;

	if (from < 0)
		return -errno;
	to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	TRY(copy_data(from, to, sb->st_size));
	rootfs_place_xattrs(from, to);
	return fchmod(to, sb->st_mode & 07777) < 0 ? -errno : 0;
}

static int copy_symlink(int from_dir, int to_dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

static int copy_fifo(int to_dir, const char *name, const struct stat *sb)
{
	return mkfifoat(to_dir, name, 0600) < 0 ||
			fchmodat(to_dir, name, sb->st_mode & 07777, 0) < 0
		? -errno
		: 0;
}

static int copy(int from_dir, int to_dir, const char *name)
{
	struct timespec ts[2];
	struct stat sb;
	int r = -EINVAL; /* layer trees hold no other types */

	if (fstatat(from_dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISREG(sb.st_mode))
		r = copy_file(from_dir, to_dir, name, &sb);
	else if (S_ISLNK(sb.st_mode))
		r = copy_symlink(from_dir, to_dir, name);
	else if (S_ISFIFO(sb.st_mode))
		r = copy_fifo(to_dir, name, &sb);
	ts[0] = ts[1] = sb.st_mtim;
	TRY(r);
	return utimensat(to_dir, name, ts, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int rootfs_place(int from_dir, int to_dir, const char *name, struct mlr_error *err)
{
	int r = linkat(from_dir, name, to_dir, name, 0) < 0 ? -errno : 0;

	if (r == -EEXIST) {
		TRY(file_remove_tree(to_dir, name, err));
		r = linkat(from_dir, name, to_dir, name, 0) < 0 ? -errno : 0;
	}
	/* No links across directories (BeeGFS), too many links (ext4: 65000), or no links at
	 * all. */
	if (r == -EXDEV || r == -EPERM || r == -EMLINK || r == -EOPNOTSUPP)
		r = copy(from_dir, to_dir, name);
	return mlr_result(err, r, "link or copy '%s'", name);
}
