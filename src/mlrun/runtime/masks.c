#include "runtime/masks.h"

static const char *const masked[] = { "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys",
	"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
	"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap" };

static const char *const readonly[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
	"/proc/sysrq-trigger" };

/* Cover path with something empty. */
static int mask(const char *path, struct plan *p, struct mlr_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode)) {
		int r = plan_mount_add(
			p, PLAN_TMPFS, NULL, path, PLAN_READONLY, PLAN_FROM_DEFAULT, err);

		/* Where the root is a tree itself there is no scratch to take a directory of. */
		if (r == 0 && p->root == PLAN_ROOT_ITSELF)
			p->mounts[p->n_mounts - 1].options = xstrdup("mode=0555,size=4k");
		return r;
	}
	return plan_mount_add(p, PLAN_BIND, "/dev/null", path, 0, PLAN_FROM_DEFAULT, err);
}

/* The host's, even if the container has its own /proc: these show nothing about processes. */
static int make_readonly(const char *path, struct plan *p, struct mlr_error *err)
{
	struct stat st;

	return stat(path, &st) < 0
		? 0
		: plan_mount_add(p, PLAN_BIND, path, path, PLAN_READONLY, PLAN_FROM_DEFAULT, err);
}

int masks_plan(struct plan *p, struct mlr_error *err)
{
	int r = 0;

	if (p->id.host_uid != 0)
		return 0;
	for (size_t i = 0; i < p->n_mounts; i++)
		if (strcmp(p->mounts[i].target, "/sys") == 0)
			p->mounts[i].flags |= PLAN_READONLY;
	plan_remark_add(p, PLAN_FROM_DEFAULT,
		"root starts it, whom the kernel lets write without a capability: /sys and parts of /proc are masked or read-only");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked); i++)
		r = mask(masked[i], p, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(readonly); i++)
		r = make_readonly(readonly[i], p, err);
	return r;
}
