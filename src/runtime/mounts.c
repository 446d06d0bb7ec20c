/*
 * The order matters. Host sources are cloned first (open_tree(2)), as descriptors, because the
 * overlay's scratch tmpfs then covers a host directory. Mounts travel by descriptor, targets are
 * resolved inside the root: nothing can be swapped between look-up and use (CVE-2021-30465).
 */
#include "runtime/mounts.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "runtime/accounts.h"
#include "runtime/kept.h"
#include "runtime/overlay.h"
#include "runtime/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY_MAX (1u << 20) /* bytes of a host file that PLAN_COPY copies */

struct assembly {
	const struct plan *plan;
	int server;
	int *sources; /* one cloned mount (or open file) a plan entry, -1 for none */
	struct overlay overlay;
};

static void assembly_done(struct assembly *a)
{
	for (size_t i = 0; a->sources && i < a->plan->n_mounts; i++)
		if (a->sources[i] >= 0)
			close(a->sources[i]);
	free(a->sources);
	overlay_done(&a->overlay);
}

static int is_missing(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ENODEV || code == EACCES;
}

static int set_flags(int fd, unsigned flags)
{
	struct mount_attr attr = { 0 };

	attr.attr_set = (flags & PLAN_READONLY ? MOUNT_ATTR_RDONLY : 0) |
		(flags & PLAN_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
		(flags & PLAN_NODEV ? MOUNT_ATTR_NODEV : 0) |
		(flags & PLAN_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
	if (!attr.attr_set)
		return 0;
	return mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ? -errno
											    : 0;
}

static int open_source(const struct plan_mount *m, int *ret, struct mlr_error *err)
{
	auto_close int fd = -1;
	int r;

	if (m->kind == PLAN_COPY)
		fd = open(m->source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	else
		/* Recursive always: what is locked below a mount may not be uncovered, so the
		 * kernel refuses to clone /dev or /proc alone. */
		fd = open_tree(
			AT_FDCWD, m->source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0) {
		if ((m->flags & PLAN_OPTIONAL) && is_missing(errno)) {
			mlr_debug("'%s' is not there, left out", m->source);
			return 0;
		}
		return mlr_fail_errno(err, "open '%s' to mount it", m->source);
	}
	if (m->kind == PLAN_BIND) {
		r = set_flags(fd, m->flags);
		if (r < 0)
			return mlr_fail(err, -r, "set the mount flags of '%s': %s%s", m->source,
				strerror(-r),
				r == -ENOSYS ? " (ro, nosuid, nodev and noexec need Linux 5.12)"
					     : "");
	}
	*ret = take_fd(&fd);
	return 0;
}

static int open_sources(struct assembly *a, struct mlr_error *err)
{
	const struct plan *p = a->plan;

	a->sources = xcalloc(p->n_mounts, sizeof(int));
	for (size_t i = 0; i < p->n_mounts; i++)
		a->sources[i] = -1;
	for (size_t i = 0; i < p->n_mounts; i++) {
		int r = 0;

		if (p->mounts[i].kind == PLAN_BIND || p->mounts[i].kind == PLAN_COPY)
			r = open_source(&p->mounts[i], &a->sources[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int move_to(int source, int root, const struct plan_mount *m, struct mlr_error *err)
{
	auto_close int target = -1;
	struct stat st;

	if (fstat(source, &st) < 0)
		return mlr_fail_errno(err, "'%s'", m->source);
	target = target_open(root, m->target, S_ISDIR(st.st_mode), err);
	if (target < 0)
		return target;
	if (move_mount(source, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
		0)
		return mlr_fail_errno(err, "mount");
	return 0;
}

/* An empty directory of the scratch tmpfs: cheaper than a tmpfs of its own. */
static int place_tmpfs(struct assembly *a, size_t i, struct mlr_error *err)
{
	auto_close int fd = -1;
	char name[32];

	snprintf(name, sizeof(name), "tmpfs%zu", i);
	if (mkdirat(a->overlay.scratch, name, 0755) < 0)
		return mlr_fail_errno(err, "make a directory in the scratch tmpfs");
	fd = open_tree(a->overlay.scratch, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return mlr_fail_errno(err, "clone a directory of the scratch tmpfs");
	return move_to(fd, a->overlay.root, &a->plan->mounts[i], err);
}

static int place_copy(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	auto_free char *buf = xmalloc(COPY_MAX);
	ssize_t n = file_read_full(a->sources[i], buf, COPY_MAX);

	if (n < 0)
		return mlr_fail(err, (int)-n, "read '%s': %s", m->source, strerror((int)-n));
	if (n == COPY_MAX)
		return mlr_fail(err, EFBIG, "'%s' is larger than %u bytes", m->source, COPY_MAX);
	return target_replace(a->overlay.root, m->target, buf, (size_t)n, err);
}

static int place_symlink(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	const char *name = NULL;
	auto_close int dir = target_parent(a->overlay.root, m->target, &name, err);
	auto_call(target_times_restore) struct target_times times = TARGET_TIMES_INIT;

	if (dir < 0)
		return dir;
	target_times_save(&times, dir);
	if (symlinkat(m->source, dir, name) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "make the link '%s' in the container", m->target);
	return 0;
}

static int place_devpts(struct assembly *a, size_t i, struct mlr_error *err)
{
	auto_close int target = target_open(a->overlay.root, a->plan->mounts[i].target, 1, err);
	char path[32];

	if (target < 0)
		return target;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
	if (mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC,
		    "newinstance,ptmxmode=0666,mode=0620") < 0)
		return mlr_fail_errno(err, "mount");
	return 0;
}

static int place_proc(struct assembly *a, size_t i, struct mlr_error *err)
{
	auto_close int target = target_open(a->overlay.root, a->plan->mounts[i].target, 1, err);
	char path[32];

	if (target < 0)
		return target;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
	if (mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return mlr_fail_errno(err, "mount");
	return 0;
}

static const char *const kind_names[] = { [PLAN_TMPFS] = "tmpfs", [PLAN_DEVPTS] = "devpts",
	[PLAN_PROC] = "proc", [PLAN_SYSFS] = "sysfs", [PLAN_MQUEUE] = "mqueue" };

static int place(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	int r = 0;

	switch (m->kind) {
	case PLAN_BIND:
		if (a->sources[i] < 0)
			return 0;
		r = move_to(a->sources[i], a->overlay.root, m, err);
		break;
	case PLAN_COPY:
		if (a->sources[i] < 0 || a->plan->root == PLAN_ROOT_KEPT) /* keep_apart() did it */
			return 0;
		r = place_copy(a, i, err);
		break;
	case PLAN_TMPFS:
		r = place_tmpfs(a, i, err);
		break;
	case PLAN_DEVPTS:
		r = place_devpts(a, i, err);
		break;
	case PLAN_SYMLINK:
		r = place_symlink(a, i, err);
		break;
	case PLAN_PROC:
		r = place_proc(a, i, err);
		break;
	case PLAN_OVERLAY:
	case PLAN_SYSFS:
	case PLAN_MQUEUE:
		r = mlr_fail(err, ENOSYS, "not made yet");
		break;
	}
	if (r < 0)
		return mlr_wrap(err, "mount '%s' on '%s'",
			m->source ? m->source : kind_names[m->kind], m->target);
	return 0;
}

/* Does an earlier mount hide this path? */
static int is_hidden(const struct plan *p, size_t i, const char *path)
{
	for (size_t j = 0; j < i; j++)
		if (p->mounts[j].kind != PLAN_COPY && p->mounts[j].kind != PLAN_SYMLINK &&
			path_below(path, p->mounts[j].target))
			return 1;
	return 0;
}

static int make_point(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	auto_close int fd = -1;
	struct stat st = { .st_mode = S_IFDIR };

	if (m->kind == PLAN_SYMLINK)
		return place_symlink(a, i, err);
	if (m->kind == PLAN_COPY)
		return a->sources[i] < 0 ? 0 : place_copy(a, i, err);
	if (m->kind == PLAN_BIND && (a->sources[i] < 0 || fstat(a->sources[i], &st) < 0))
		return 0;
	fd = target_open(a->overlay.root, m->target, S_ISDIR(st.st_mode), err);
	return fd < 0 ? fd : 0;
}

/*
 * What is kept shall be what the container's processes wrote: the places to mount on, and the files
 * that mlrun itself puts into the image, are made in memory beforehand and lie below it.
 */
static int keep_apart(struct assembly *a, struct mlr_error *err)
{
	const struct plan *p = a->plan;
	auto_close int workdir = -1;
	int r = accounts_write(a->overlay.root, &p->id, err);

	for (size_t i = 0; r == 0 && i < p->n_mounts; i++) {
		r = is_hidden(p, i, p->mounts[i].target) ? 0 : make_point(a, i, err);
		if (r < 0)
			return mlr_wrap(err, "mount on '%s'", p->mounts[i].target);
	}
	if (r == 0 && !is_hidden(p, p->n_mounts, p->workdir)) {
		workdir = target_mkdir(a->overlay.root, p->workdir, err);
		if (workdir < 0)
			return mlr_wrap(err, "working directory");
	}
	return r < 0 ? r : kept_mount(p, &a->overlay, err);
}

static int place_all(struct assembly *a, struct mlr_error *err)
{
	/* First, while no link of the image can lead to a host directory. */
	int r = a->plan->root == PLAN_ROOT_KEPT
		? keep_apart(a, err)
		: accounts_write(a->overlay.root, &a->plan->id, err);

	for (size_t i = 0; r == 0 && i < a->plan->n_mounts; i++)
		r = place(a, i, err);
	return r;
}

static int seal_root(struct assembly *a, struct mlr_error *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (a->plan->root != PLAN_ROOT_READ_ONLY)
		return 0;
	/* The overlay alone: what is mounted on it has flags of its own. */
	if (mount_setattr(a->overlay.root, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return mlr_fail_errno(err, "make the root read-only (needs Linux 5.12)");
	return 0;
}

static int pivot(struct assembly *a, struct mlr_error *err)
{
	if (fchdir(a->overlay.root) < 0)
		return mlr_fail_errno(err, "enter the new root");
	/* pivot_root(2), "pivot_root(".", ".")": the old root comes to lie on the new one and is
	 * taken off. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return mlr_fail_errno(err, "pivot to the new root");
	if (umount2(".", MNT_DETACH) < 0)
		return mlr_fail_errno(err, "take off the host's root");
	return 0;
}

static int enter_workdir(const char *dir, struct mlr_error *err)
{
	char now[4096];

	if (chdir(dir) < 0)
		return mlr_fail_errno(err, "working directory '%s' in the container", dir);
	/* A directory outside the root would show as "(unreachable)…" (CVE-2024-21626). */
	if (!getcwd(now, sizeof(now)) || now[0] != '/')
		return mlr_fail(
			err, EXDEV, "working directory '%s' lies outside the container", dir);
	return 0;
}

static int make_workdir(int root, const char *dir, struct mlr_error *err)
{
	auto_close int fd = target_mkdir(root, dir, err);

	if (fd < 0) {
		mlr_wrap(err, "working directory");
		return mlr_hint(err, "-w DIR starts the command elsewhere");
	}
	return 0;
}

static int build(struct assembly *a, struct mlr_error *err)
{
	int r;

	r = open_sources(a, err);
	if (r < 0)
		return r;
	r = overlay_mount(a->plan, a->server, &a->overlay, err);
	if (r < 0)
		return r;
	r = place_all(a, err);
	if (r < 0)
		return r;
	r = make_workdir(a->overlay.root, a->plan->workdir, err);
	return r < 0 ? r : seal_root(a, err);
}

int mounts_enter(const struct plan *p, int server, struct mlr_error *err)
{
	auto_call(assembly_done) struct assembly a = { .plan = p, .server = server, .overlay = OVERLAY_INIT };
	mode_t mask = umask(022);
	int r = build(&a, err);

	if (r == 0)
		r = pivot(&a, err);
	umask(mask);
	return r < 0 ? r : enter_workdir(p->workdir, err);
}

int mounts_enter_workdir(const struct plan *p, struct mlr_error *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	mode_t mask;
	int r;

	if (root < 0)
		return mlr_fail_errno(err, "open '/'");
	mask = umask(022);
	r = make_workdir(root, p->workdir, err);
	umask(mask);
	return r < 0 ? r : enter_workdir(p->workdir, err);
}
