#include "store/mark.h"

#include "base/base.h"
#include "store/handle.h"
#include "store/process.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define MARK   "mark"
#define GONE   "mark/gone"
#define OPAQUE "user.overlay.opaque"

static int fill(const struct store *st, const char *work)
{
	auto_close int dir = -1;

	if (mkdirat(st->fd, work, 0755) == 0)
		dir = openat(st->fd, work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 || fchmod(dir, 0755) < 0 || fsetxattr(dir, OPAQUE, "y", 1, 0) < 0 ||
			mknodat(dir, strrchr(GONE, '/') + 1, S_IFCHR, makedev(0, 0)) < 0
		? -errno
		: 0;
}

void store_make_mark(struct store *st)
{
	char work[STORE_WORK_PATH];

	if (faccessat(st->fd, MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		store_work_path("probe", work, NULL) < 0)
		return;
	if (fill(st, work) < 0 || renameat(st->fd, work, st->fd, MARK) < 0)
		mlr_debug("store: no mark was made: %s", strerror(errno));
	file_remove_tree(st->fd, work, NULL);
}

int store_check_mark(const struct store *st, struct mlr_error *err)
{
	auto_close int dir = openat(st->fd, MARK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat gone;
	char value = '\0';
	int has_xattr;

	if (dir < 0)
		return 0;
	/* Another node may have mounted this file system without attributes. */
	has_xattr = fgetxattr(dir, OPAQUE, &value, 1) == 1 || errno == ENOTSUP;
	if (has_xattr && fstatat(st->fd, GONE, &gone, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISCHR(gone.st_mode))
		return 0;
	mlr_fail(err, EUCLEAN,
		"store '%s' is a copy without the %s, so files that images removed would be back",
		st->path, has_xattr ? "whiteouts (character devices)" : "extended attributes");
	mlr_hint(err,
		"'cp -a' and 'tar --xattrs' make a whole copy; mlrun-store(1), Copies, says how to delete this one");
	return -EUCLEAN;
}
