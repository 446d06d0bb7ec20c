/*
 * The order matters. Host sources are opened first, because the overlay's scratch tmpfs then covers
 * a host directory. What can be made in the upper layer is made before the overlay is mounted.
 * Targets are resolved inside the root.
 */
#include "runtime/mounts.h"

#include "runtime/accounts.h"
#include "runtime/bind.h"
#include "runtime/kept.h"
#include "runtime/target.h"
#include "runtime/upper.h"

#include <sys/mount.h>
#include <sys/syscall.h>

/* --- file systems made for the container --- */

/* Kinds that are mounted by type alone. */
static const struct simple {
	const char *type;
	unsigned long flags;
	const char *options;
	const char *hint; /* for when the kernel refuses */
} simple[] = {
	[PLAN_TMPFS] = { "tmpfs", 0, NULL, NULL },
	[PLAN_DEVPTS] = { "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620",
		NULL },
	[PLAN_PROC] = { "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL,
		"something is mounted over parts of the host's /proc, as in a container of Docker's; "
		"the kernel then gives out no other /proc: --pid cannot be had here" },
	[PLAN_SYSFS] = { "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL,
		"something is mounted over parts of the host's /sys, as in a container of Docker's; "
		"the kernel then gives out no other /sys: --net=none cannot be had here" },
	[PLAN_MQUEUE] = { "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, NULL },
};

static unsigned long flags_of(const struct plan_mount *m)
{
	return bind_mount_flags(m->flags) | (m->flags & PLAN_NOATIME ? MS_NOATIME : 0) |
		(m->flags & PLAN_NODIRATIME ? MS_NODIRATIME : 0);
}

static int mount_simple(const struct plan_mount *m, const char *target, struct mlr_error *err)
{
	const struct simple *s = &simple[m->kind];
	const char *options = m->options ? m->options : s->options;
	int r;

	if (mount(m->source ? m->source : s->type, target, s->type, s->flags | flags_of(m),
		    options) == 0)
		return 0;
	r = mlr_fail(err, errno, "mount a %s%s%s: %s", s->type, options ? " with options " : "",
		options ? options : "", strerror(errno));
	if (r == -EPERM && s->hint)
		mlr_hint(err, "%s", s->hint);
	return r;
}

/* Make the upper layer's directories; its top gets the host directory's attributes. */
static int make_upper(int source, int scratch, size_t i, struct mlr_error *err)
{
	char name[32], upper[48], work[48];
	struct stat st;

	snprintf(name, sizeof(name), "overlay%zu", i);
	snprintf(upper, sizeof(upper), "%s/upper", name);
	snprintf(work, sizeof(work), "%s/work", name);
	if (fstat(source, &st) < 0)
		return mlr_fail_errno(err, "look at the directory");
	if (mkdirat(scratch, name, 0755) < 0 || mkdirat(scratch, work, 0755) < 0 ||
		mkdirat(scratch, upper, st.st_mode & 01777) < 0)
		return mlr_fail_errno(err, "make a layer in the scratch tmpfs");

	const struct timespec times[2] = { st.st_atim, st.st_mtim };

	if (utimensat(scratch, upper, times, 0) < 0)
		return mlr_fail_errno(err, "set the times of a layer in the scratch tmpfs");
	return 0;
}

/* Paths are relative to /proc/self/fd, as in runtime/overlay.c. */
static int mount_overlay(const struct plan_mount *m, size_t i, const struct source *s, int scratch,
	const char *target, struct mlr_error *err)
{
	auto_free char *options = s->layers
		? xasprintf("%s,userxattr", s->layers)
		: xasprintf("lowerdir=%d,upperdir=%d/overlay%zu/upper,workdir=%d/overlay%zu/work,"
			    "userxattr",
			  s->fd, scratch, i, scratch, i);
	int r;

	if (!s->layers)
		TRY(make_upper(s->fd, scratch, i, err));
	if (chdir("/proc/self/fd") < 0)
		return mlr_fail_errno(err, "change to /proc/self/fd");
	if (mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV | flags_of(m), options) == 0)
		return 0;
	r = mlr_fail(err, errno, "mount an overlay on it: %s", strerror(errno));
	if (r == -EINVAL || r == -EOPNOTSUPP)
		mlr_hint(err,
			"its file system cannot be an overlay's lower layer; -v mounts it as it is");
	else if (r == -EPERM)
		mlr_hint(err, "overlay mounts of ordinary users need Linux 5.11");
	return r;
}

/*
 * Mount one: PLAN_TMPFS with options, PLAN_DEVPTS, PLAN_OVERLAY, PLAN_PROC, PLAN_SYSFS,
 * PLAN_MQUEUE. Changes the working directory.
 *
 *   s        what sources_open() found
 *   scratch  directory of a tmpfs; what is written to an overlay goes to "overlay<i>" there
 *   target   where to mount; a path that contains no links of the image
 *
 * Returns 0 or -errno, with a hint where there is one.
 */
static int filesystem_mount(const struct plan_mount *m, size_t i, const struct source *s,
	int scratch, const char *target, struct mlr_error *err)
{
	return m->kind == PLAN_OVERLAY ? mount_overlay(m, i, s, scratch, target, err)
				       : mount_simple(m, target, err);
}

/* --- mounts --- */

struct assembly {
	const struct plan *plan;
	const struct squash_server *server;
	struct source *sources; /* one for each plan entry */
	struct overlay overlay;
	int has_accounts; /* passwd and group are in place */
	int linked;       /* a link may have led some mount away from its target's path */
};

static void assembly_done(struct assembly *a)
{
	sources_close(a->sources, a->plan->n_mounts);
	overlay_done(&a->overlay);
}

/*
 * Can this target be mounted by its path from the root? Directories on the way to a fresh place are
 * ours: nobody else sees them, and they hold no links that the kernel would follow to the host. The
 * last component is safe as well, since move_mount(2) does not follow a link there and cannot mount
 * a directory on one. Once a link has led a mount astray, paths are no longer safe: our directories
 * may be mounted elsewhere or covered.
 */
static int is_fresh(const struct assembly *a, size_t i)
{
	return a->sources[i].fresh && !a->linked;
}

static int is_of_root(const struct assembly *a, size_t i)
{
	const char *target = a->plan->mounts[i].target;

	return a->sources[i].is_dir && !a->linked && strrchr(target, '/') == target;
}

/* Attach a cloned mount by descriptors. */
static int move_to(struct assembly *a, size_t i, int mount, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	auto_close int target = -1;

	if ((is_fresh(a, i) || is_of_root(a, i)) &&
		bind_put_at(mount, a->overlay.root, m->target + 1) == 0)
		return 0;
	target = target_open(a->overlay.root, m->target, a->sources[i].is_dir, &a->linked, err);
	if (target < 0)
		return target;
	return mlr_result(err, bind_put(mount, target, m->flags), "mount");
}

/* Use the scratch tmpfs's directory or file that upper_fill() made: cheaper than another tmpfs. */
static int place_scratch(struct assembly *a, size_t i, struct mlr_error *err)
{
	auto_close int fd = -1;
	char name[32];

	if (a->plan->root == PLAN_ROOT_ITSELF) /* upper_fill() is about an upper layer */
		TRY(upper_make_source(a->plan, i, a->overlay.scratch, err));
	snprintf(name, sizeof(name), "mount%zu", i);
	fd = bind_take(a->overlay.scratch, name, a->plan->mounts[i].flags);
	if (fd < 0)
		return mlr_result(err, fd, "clone a part of the scratch tmpfs");
	return move_to(a, i, fd, err);
}

static int place_copy(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	auto_free char *buf = NULL;
	ssize_t n = source_read(&a->sources[i], m, &buf, err);

	return n < 0 ? (int)n : target_replace(a->overlay.root, m->target, buf, (size_t)n, err);
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
	if (m->flags & PLAN_REPLACE && unlinkat(dir, name, 0) < 0 && errno != ENOENT &&
		errno != EISDIR)
		return mlr_fail_errno(err, "replace '%s' in the container", m->target);
	if (symlinkat(m->source, dir, name) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "make the link '%s' in the container", m->target);
	return 0;
}

static int place_filesystem(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	auto_close int target = -1;
	auto_free char *path = NULL;

	if (is_fresh(a, i) && a->overlay.covers_scratch) {
		path = xasprintf("%s%s", a->overlay.place, m->target);
	} else {
		target = target_open(a->overlay.root, m->target, 1, &a->linked, err);
		if (target < 0)
			return target;
		path = xasprintf("/proc/self/fd/%d", target);
	}
	return filesystem_mount(m, i, &a->sources[i], a->overlay.scratch, path, err);
}

/* Does an earlier mount hide this path? */
static int is_hidden(const struct plan *p, size_t i, const char *path)
{
	for (size_t j = 0; j < i; j++)
		if (plan_kind_covers(p->mounts[j].kind) && path_below(path, p->mounts[j].target))
			return 1;
	return 0;
}

static int place_seal(struct assembly *a, size_t i, struct mlr_error *err)
{
	const char *target = a->plan->mounts[i].target;
	auto_close int fd = target_open(a->overlay.root, target, 1, &a->linked, err);

	if (fd < 0)
		return fd;
	return mlr_result(err, bind_seal(fd), "make '%s' read-only", target);
}

static int place(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	int r = 0;

	if (a->sources[i].absent || a->sources[i].done)
		return 0;
	switch (m->kind) {
	case PLAN_BIND:
		r = move_to(a, i, a->sources[i].fd, err);
		break;
	case PLAN_COPY:
		if (a->plan->root == PLAN_ROOT_KEPT) /* done by keep_apart() */
			return 0;
		r = place_copy(a, i, err);
		break;
	case PLAN_SYMLINK:
		/* done by keep_apart(), as is the next */
		if (m->flags & PLAN_REPLACE && a->plan->root == PLAN_ROOT_KEPT &&
			!is_hidden(a->plan, i, m->target))
			return 0;
		r = place_symlink(a, i, err);
		break;
	case PLAN_TMPFS:
		r = m->options ? place_filesystem(a, i, err) : place_scratch(a, i, err);
		break;
	case PLAN_FILE:
		if (m->mode) {
			r = place_scratch(a, i, err);
			break;
		}
		if (a->plan->root == PLAN_ROOT_KEPT && !is_hidden(a->plan, i, m->target))
			return 0;
		r = target_replace(a->overlay.root, m->target, m->text, m->text_size, err);
		break;
	case PLAN_SEAL:
		r = place_seal(a, i, err);
		break;
	case PLAN_DEVPTS:
	case PLAN_OVERLAY:
	case PLAN_PROC:
	case PLAN_SYSFS:
	case PLAN_MQUEUE:
		r = place_filesystem(a, i, err);
		break;
	}
	/* EACCES: behind a link in an image whose directories another user owns, as a site's. */
	if ((r == -EROFS || r == -EACCES) && (m->flags & PLAN_OPTIONAL)) {
		mlr_debug("cannot mount on '%s', omitted", m->target);
		if (err)
			*err = (struct mlr_error)MLR_ERROR_INIT;
		return 0;
	}
	if (r < 0)
		return mlr_wrap(err, "mount '%s' on '%s'",
			m->source ? m->source : plan_kind_name(m->kind), m->target);
	return 0;
}

static int make_point(struct assembly *a, size_t i, struct mlr_error *err)
{
	const struct plan_mount *m = &a->plan->mounts[i];
	auto_close int fd = -1;

	if (a->sources[i].absent || a->sources[i].done)
		return 0;
	if (m->kind == PLAN_SYMLINK)
		return place_symlink(a, i, err);
	if (m->kind == PLAN_COPY)
		return place_copy(a, i, err);
	if (m->kind == PLAN_FILE && !m->mode)
		return target_replace(a->overlay.root, m->target, m->text, m->text_size, err);
	if (m->kind == PLAN_SEAL)
		return 0;
	fd = target_open(a->overlay.root, m->target, a->sources[i].is_dir, &a->linked, err);
	return fd < 0 ? fd : 0;
}

/*
 * The kept layer shall hold only what the container's processes write. Mount points, and files that
 * mlrun puts into the image, are therefore made in memory beforehand, in a layer below it.
 */
static int keep_apart(struct assembly *a, struct mlr_error *err)
{
	const struct plan *p = a->plan;
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n_mounts; i++) {
		r = is_hidden(p, i, p->mounts[i].target) ? 0 : make_point(a, i, err);
		if (r < 0)
			return mlr_wrap(err, "mount on '%s'", p->mounts[i].target);
	}
	if (r == 0 && !is_hidden(p, p->n_mounts, p->workdir)) {
		r = target_mkdir(a->overlay.root, p->workdir, err);
		if (r < 0)
			return mlr_wrap(err, "working directory");
		close(r); /* nothing may be open in the overlay */
		r = 0;
	}
	return r < 0 ? r : kept_mount(p, &a->overlay, err);
}

static int place_all(struct assembly *a, struct mlr_error *err)
{
	int r = 0;

	/* Must come first, while no link of the image can lead to a host directory. */
	if (!a->has_accounts && a->plan->id.name)
		r = accounts_write(a->overlay.root, &a->plan->id, err);
	if (r == 0 && a->plan->root == PLAN_ROOT_KEPT)
		r = keep_apart(a, err);

	for (size_t i = 0; r == 0 && i < a->plan->n_mounts; i++)
		r = place(a, i, err);
	return r;
}

static int seal_root(struct assembly *a, struct mlr_error *err)
{

	if (a->plan->root != PLAN_ROOT_READ_ONLY)
		return 0;
	/* Only the overlay: mounts on it have flags of their own. */
	return mlr_result(err, bind_seal(a->overlay.root), "make the root read-only");
}

/*
 * The kernel's first root file system (rootfs) cannot be pivoted away, and nodes that boot into
 * their initramfs run on it. There the new root is moved over the old one, as switch_root(8) does:
 * a path that leads up from it leads to it again, as does setns(2).
 */
static int move_over(struct mlr_error *err)
{
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0)
		return mlr_fail_errno(err, "move the new root over the old one");
	return chroot(".") < 0 ? mlr_fail_errno(err, "enter the new root") : 0;
}

static int pivot(struct assembly *a, struct mlr_error *err)
{
	const struct overlay *o = &a->overlay;
	int covers = overlay_cover_image(&a->overlay);

	if (fchdir(covers ? o->image : o->root) < 0)
		return mlr_fail_errno(err, "enter the new root");
	/* pivot_root(2), "pivot_root(".", ".")": this stacks the old root on the new one; then it
	 * is unmounted. */
	if (syscall(SYS_pivot_root, ".", ".") < 0) {

		TRY(errno == EINVAL ? move_over(err)
				    : mlr_fail_errno(err, "pivot to the new root"));
	} else if (umount2(".", MNT_DETACH) < 0) {
		return mlr_fail_errno(err, "take off the host's root");
	}
	/* What is uppermost is "/" to those who enter the namespace, and so it is to us. */
	if (covers && (fchdir(o->root) < 0 || chroot(".") < 0))
		return mlr_fail_errno(err, "enter the root above the image");
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

/* Mount an overlay or, if that is impossible and the root is one tree, the tree itself. */
static int mount_root(struct assembly *a, struct mlr_error *err)
{
	int r;

	if (a->plan->root == PLAN_ROOT_ITSELF)
		return overlay_mount_itself(&a->overlay, err);
	r = overlay_mount(a->plan, &a->overlay, err);
	if (r == 0 || !underlay_serves(a->plan, &a->overlay))
		return r;
	if (a->plan->root != PLAN_ROOT_READ_ONLY)
		mlr_info("the image's files cannot be changed, as there can be no overlay here: %s",
			strerror(-r));
	return underlay_mount(&a->overlay, err);
}

static int build(struct assembly *a, struct mlr_error *err)
{
	TRY(sources_open(a->plan, &a->sources, err));
	TRY(overlay_open(a->plan, a->server, &a->overlay, err));
	if (a->plan->root != PLAN_ROOT_ITSELF)
		TRY(upper_fill(a->plan, a->sources, &a->overlay.trees, a->overlay.upper,
			a->overlay.scratch, &a->has_accounts, err));
	squash_look_at_loader(a->overlay.image, a->overlay.command);
	TRY(mount_root(a, err));
	TRY(place_all(a, err));
	TRY(make_workdir(a->overlay.root, a->plan->workdir, err));
	return seal_root(a, err);
}

int mounts_enter(const struct plan *p, const struct squash_server *server,
	const struct runtime_stops *stops, struct mlr_error *err)
{
	auto_call(assembly_done) struct assembly a = {
		.plan = p, .server = server, .overlay = OVERLAY_INIT
	};
	mode_t mask = umask(0); /* modes are used exactly as given */
	int r = build(&a, err);

	if (r == 0 && stops)
		r = stops->before_pivot(stops->ctx, a.overlay.root, err);
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
