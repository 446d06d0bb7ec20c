#include "runtime/bind.h"

#include "plan/plan.h"
#include "runtime/mountinfo.h"

#include <sys/mount.h>

/* Features that this kernel lacks, learnt at the first refusal. */
static int no_open_tree, no_setattr;

static int is_lacking(int code)
{
	return code == ENOSYS || code == EPERM;
}

static void fd_path(int fd, char path[32])
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

static uint64_t new_flags(unsigned flags)
{
	return (flags & PLAN_READONLY ? MOUNT_ATTR_RDONLY : 0) |
		(flags & PLAN_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
		(flags & PLAN_NODEV ? MOUNT_ATTR_NODEV : 0) |
		(flags & PLAN_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

/* Set the flags of a clone that is not attached yet. If that fails, bind_put() sets them. */
static int set_flags(int fd, unsigned flags)
{
	struct mount_attr attr = { .attr_set = new_flags(flags) };

	if (!attr.attr_set || no_setattr)
		return 0;
	if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) == 0)
		return 0;
	no_setattr = is_lacking(errno);
	return no_setattr ? 0 : -errno;
}

/* Only move_mount(2) can attach what open_tree(2) clones, so use both or neither. */
static void probe(void)
{
	static int done;

	if (!done && move_mount(-1, "", -1, "", 0) < 0)
		no_open_tree = is_lacking(errno);
	done = 1;
}

unsigned long bind_mount_flags(unsigned flags)
{
	return (flags & PLAN_READONLY ? MS_RDONLY : 0) | (flags & PLAN_NOSUID ? MS_NOSUID : 0) |
		(flags & PLAN_NODEV ? MS_NODEV : 0) | (flags & PLAN_NOEXEC ? MS_NOEXEC : 0);
}

int bind_take(int dirfd, const char *path, unsigned flags)
{
	auto_close int fd = -1;

	probe();
	/* Always recursive: what is locked below a mount must stay covered, so the kernel refuses
	 * to clone /dev or /proc alone. */
	if (!no_open_tree)
		fd = open_tree(dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0 && !no_open_tree && !is_lacking(errno))
		return -errno;
	if (fd < 0) {
		fd = openat(dirfd, path, O_PATH | O_CLOEXEC);
		no_open_tree |= fd >= 0;
		return fd < 0 ? -errno : take_fd(&fd);
	}
	TRY(set_flags(fd, flags));
	return take_fd(&fd);
}

int bind_clones(void)
{
	return !no_open_tree;
}

/* Flags inherited from a parent user namespace are locked: a remount must repeat them, or mount(2)
 * fails with EPERM. */
static unsigned long parse_flags(char *options)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} known[] = { { "ro", MS_RDONLY }, { "nosuid", MS_NOSUID }, { "nodev", MS_NODEV },
		{ "noexec", MS_NOEXEC }, { "noatime", MS_NOATIME }, { "nodiratime", MS_NODIRATIME },
		{ "relatime", MS_RELATIME } };
	unsigned long flags = 0;
	char *save = NULL;

	for (char *w = strtok_r(options, ",", &save); w; w = strtok_r(NULL, ",", &save))
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			if (strcmp(w, known[i].name) == 0)
				flags |= known[i].flag;
	return flags;
}

static int remount(const struct mountinfo *m, unsigned long flags)
{
	flags |= MS_REMOUNT | MS_BIND | parse_flags(m->options);
	return mount(NULL, m->target, NULL, flags, NULL) < 0 ? -errno : 0;
}

/* Set the flags of the mount at a place and of the mounts below it. */
static int set_mounted(const char *place, unsigned long flags, int below)
{
	auto_free char *text = NULL;
	struct mountinfo m;
	char *rest;

	TRY(mountinfo_read(AT_FDCWD, "/proc/self/mountinfo", &text));
	rest = text;
	while (mountinfo_next(&rest, &m))
		if (strcmp(m.target, place) == 0 || (below && path_below(m.target, place)))
			TRY(remount(&m, flags));
	return 0;
}

static int put_old(int mounted, int target, unsigned flags)
{
	auto_free char *place = file_fd_path(target);
	char from[32], to[32];

	fd_path(mounted, from);
	fd_path(target, to);
	if (!place)
		return -errno;
	if (no_open_tree && mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -errno;
	return bind_mount_flags(flags) ? set_mounted(place, bind_mount_flags(flags), 1) : 0;
}

int bind_put(int mounted, int target, unsigned flags)
{
	if (!no_open_tree &&
		move_mount(mounted, "", target, "",
			MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	return no_open_tree || no_setattr ? put_old(mounted, target, flags) : 0;
}

int bind_put_at(int mounted, int root, const char *path)
{
	if (no_open_tree || no_setattr)
		return -ENOSYS;
	return move_mount(mounted, "", root, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

int bind_seal(int top)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	auto_free char *place = NULL;

	if (!no_setattr && mount_setattr(top, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0)
		return 0;
	if (!no_setattr && !is_lacking(errno))
		return -errno;
	place = file_fd_path(top);
	if (!place)
		return -errno;
	return set_mounted(place, MS_RDONLY, 0);
}
