#include "layer/whiteout.h"

#include "base/base.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

int layer_whiteout_is(const struct stat *sb)
{
	return S_ISCHR(sb->st_mode) && sb->st_rdev == makedev(0, 0);
}

int layer_whiteout_make(int dir_fd, const char *name, struct mlr_error *err)
{
	int r;

	if (mknodat(dir_fd, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	r = mlr_fail_errno(err, "make the whiteout '%s'", name);
	if (r == -EPERM || r == -EOPNOTSUPP || r == -EINVAL)
		mlr_hint(err,
			"the store's file system allows no character device 0:0 (Linux 4.18 and a "
			"local file system do); mlrun pull --format=squashfs makes one file of an image, or "
			"choose another store with --store or MLRUN_STORE");
	return r;
}

int layer_opaque_set(int dir_fd, const char *name, struct mlr_error *err)
{
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return mlr_fail_errno(err, "open directory '%s'", name);
	if (fsetxattr(fd, LAYER_OPAQUE_XATTR, "y", 1, 0) == 0)
		return 0;
	r = mlr_fail_errno(err, "make directory '%s' opaque", name);
	if (r == -EOPNOTSUPP || r == -EPERM)
		mlr_hint(err,
			"the store's file system keeps no user extended attributes; mlrun pull "
			"--format=squashfs makes one file of an image, or choose another store with "
			"--store or MLRUN_STORE");
	return r;
}

int layer_opaque_is(int fd)
{
	char v;

	return fgetxattr(fd, LAYER_OPAQUE_XATTR, &v, 1) == 1 && v == 'y';
}
