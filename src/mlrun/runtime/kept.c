#include "runtime/kept.h"

#include "base/spawn.h"
#include "runtime/userns.h"

#include <sys/mount.h>

#define BUSY_WAIT_US 1000000

/* The upper layer's top is the container's "/", so it appears with its attributes in one step. */
static int make_upper(const struct plan *p, const struct overlay *o, struct mlr_error *err)
{
	struct stat st;

	if (faccessat(o->kept, "upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	TRY(file_remove_tree(o->kept, "upper.new", err));
	if (mkdirat(o->kept, "upper.new", 0700) < 0)
		return mlr_fail_errno(err, "make '%s/upper'", p->kept);
	if (fstat(o->trees.fds[0], &st) < 0 ||
		fchmodat(o->kept, "upper.new", plan_open_mode(p, "/", st.st_mode & 01777), 0) < 0)
		return mlr_fail_errno(err, "give the root the image's mode");

	const struct timespec times[2] = { st.st_atim, st.st_mtim };

	if (utimensat(o->kept, "upper.new", times, 0) < 0)
		return mlr_fail_errno(err, "give the root the image's times");
	if (renameat(o->kept, "upper.new", o->kept, "upper") < 0)
		return mlr_fail_errno(err, "make '%s/upper'", p->kept);
	return 0;
}

static int make_places(const struct plan *p, const struct overlay *o, struct mlr_error *err)
{
	TRY(make_upper(p, o, err));
	if (mkdirat(o->kept, "work", 0700) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "make '%s/work'", p->kept);
	return 0;
}

/* "lowerdir=8/upper:4:5…,upperdir=9/upper,workdir=…". The lower layers leave out the container's
 * own layer. */
static char *mount_options(const struct overlay *o, int work, const char *rest)
{
	char *s = xmalloc(o->trees.n * 12 + strlen(rest) + 128),
	     *at = s + sprintf(s, "lowerdir=%d/upper", o->scratch);

	for (size_t i = (size_t)o->kept_is_lower; i < o->trees.n; i++)
		at += sprintf(at, ":%d", o->trees.fds[i]);
	sprintf(at, ",upperdir=%d/upper,workdir=%d/work,userxattr%s", o->kept, work, rest);
	return s;
}

/* Unmount from /proc/self/fd, where overlay_mount_root() has left the working directory. */
static int unmount(struct overlay *o)
{
	char root[24];

	snprintf(root, sizeof(root), "%d/root", o->scratch);
	close(o->root);
	o->root = -1;
	return umount2(root, 0);
}

/*
 * Is the upper layer in use? Two overlays with one upper layer lead to undefined behaviour, and by
 * default the kernel only warns. With index=on it refuses; it checks the work directory afterwards,
 * which is on another file system here, so this never mounts
 * (Documentation/filesystems/overlayfs.rst, "Sharing and copying layers").
 */
static int is_busy(struct overlay *o)
{
	auto_free char *options = mount_options(o, o->scratch, ",index=on");
	int r = overlay_mount_root(NULL, o, options);

	if (r == 0)
		unmount(o);
	return r == -EBUSY;
}

/* Wait a little: the kernel unmounts an overlay some time after its last process was reaped. */
static int stays_busy(struct overlay *o)
{
	for (long us = 200, waited = 0;; waited += us, us = us < 20000 ? us * 2 : us) {
		if (!is_busy(o))
			return 0;
		if (waited > BUSY_WAIT_US)
			return 1;
		mlr_sleep_us(us);
	}
}

static int refuse_busy(const struct plan *p, struct mlr_error *err)
{
	const char *name = strrchr(p->kept, '/') + 1;

	mlr_fail(err, EBUSY,
		"container '%s' is in use, with other mounts or namespaces than are asked "
		"for, or by processes that its last command left behind",
		name);
	mlr_hint(err,
		"who starts in the same directory with the same options joins it; mlrun ps lists "
		"what runs in it");
	return -EBUSY;
}

static int mount_failed(const struct plan *p, int code, struct mlr_error *err)
{
	mlr_fail(err, code, "mount an overlay that keeps what is written in '%s': %s", p->kept,
		strerror(code));
	if (code == EINVAL || code == EOPNOTSUPP || code == EREMOTE || code == EPERM ||
		code == EACCES)
		mlr_hint(err,
			"its file system cannot hold an overlay's upper layer (NFS and Lustre "
			"cannot): --store or MLRUN_STORE names a store on a local disk");
	return -code;
}

int kept_mount(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	auto_free char *options = mount_options(o, o->kept, "");
	int r;

	if (unmount(o) < 0)
		return mlr_fail_errno(err, "unmount the overlay");
	TRY(make_places(p, o, err));
	if (stays_busy(o))
		return refuse_busy(p, err);
	r = overlay_mount_root(p, o, options);
	return r < 0 ? mount_failed(p, -r, err) : 0;
}

/* In a child process, since it changes namespaces. Returns 1 if the layer is in use, else 0. */
static int look(const char *dir)
{
	const struct plan_identity id = {
		.uid = getuid(), .host_uid = getuid(), .gid = getgid(), .host_gid = getgid()
	};
	auto_call(overlay_done) struct overlay o = OVERLAY_INIT;

	if (userns_enter(&id, NULL) < 0)
		return 0;
	o.kept = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC); /* before the scratch may hide it */
	if (o.kept < 0 || overlay_mount_scratch(NULL, &o, NULL) < 0 ||
		mkdirat(o.scratch, "upper", 0755) < 0)
		return 0;
	return stays_busy(&o);
}

int kept_is_mounted(const char *dir)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(look(dir));
	status = child < 0 ? -1 : spawn_wait(child);
	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}
