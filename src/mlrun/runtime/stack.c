/*
 * The rules of the kernel's Documentation/filesystems/overlayfs.rst: the topmost tree with a name
 * decides; directories merge down to the first non-directory or opaque directory; a whiteout is a
 * character device 0:0.
 */
#include "runtime/stack.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

void stack_done(struct stack *s)
{
	for (size_t i = 0; i < s->n; i++)
		close(s->fds[i]);
	free(s->fds);
	*s = (struct stack){ 0 };
}

void stack_take(struct stack *s, int fd)
{
	*xadd(s->fds, s->n) = fd;
}

static enum stack_kind kind_of(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return STACK_DIR;
	if (S_ISREG(st->st_mode)) /* an empty file may be a whiteout, marked by xattrs (Linux 6.7)
				   */
		return st->st_size > 0 ? STACK_FILE : STACK_UNKNOWN;
	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0))
		return STACK_ABSENT;
	return STACK_OTHER;
}

enum stack_kind stack_look(const struct stack *s, const char *name, size_t *at, struct stat *st)
{
	struct stat sb;

	for (size_t i = 0; i < s->n; i++) {
		if (fstatat(s->fds[i], name, &sb, AT_SYMLINK_NOFOLLOW) == 0) {
			if (at)
				*at = i;
			if (st)
				*st = sb;
			return kind_of(&sb);
		}
		if (errno != ENOENT)
			return STACK_UNKNOWN;
	}
	return STACK_ABSENT;
}

static int is_opaque(int fd)
{
	char path[32], value;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return getxattr(path, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

enum stack_kind stack_down(
	const struct stack *s, const char *name, struct stack *ret, struct stat *st)
{
	auto_call(stack_done) struct stack got = { 0 };
	size_t i = 0;
	enum stack_kind kind = stack_look(s, name, &i, st);

	if (kind != STACK_DIR)
		return kind;
	for (; i < s->n; i++) {
		int fd = openat(s->fds[i], name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
			break;
		if (fd < 0)
			return STACK_UNKNOWN;
		if (got.n > 0 && is_opaque(got.fds[got.n - 1])) {
			close(fd);
			break;
		}
		stack_take(&got, fd);
	}
	*ret = take_struct(&got, { 0 });
	return STACK_DIR;
}
