#include "runtime/filesystem.h"

#include "runtime/bind.h"

#include <sys/mount.h>

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

int filesystem_mount(const struct plan_mount *m, size_t i, const struct source *s, int scratch,
	const char *target, struct mlr_error *err)
{
	return m->kind == PLAN_OVERLAY ? mount_overlay(m, i, s, scratch, target, err)
				       : mount_simple(m, target, err);
}
