#include "runtime/masks.h"

static const char *const masked[] = { "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys",
	"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
	"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap" };

static const char *const readonly[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
	"/proc/sysrq-trigger" };

/* Is it on the host, and will it be in the container? */
static int is_there(const char *path, const struct plan *p, struct stat *st)
{
	return stat(path, st) == 0 &&
		plan_mount_at(p, strncmp(path, "/sys", 4) == 0 ? "/sys" : "/proc");
}

/* Cover path with something empty. */
static int mask(const char *path, struct plan *p, struct mlr_error *err)
{
	struct stat st;

	if (!is_there(path, p, &st))
		return 0;
	if (S_ISDIR(st.st_mode))
		return plan_mount_add(
			p, PLAN_TMPFS, NULL, path, PLAN_READONLY, PLAN_FROM_DEFAULT, err);
	return plan_mount_add(p, PLAN_BIND, "/dev/null", path, 0, PLAN_FROM_DEFAULT, err);
}

/* The host's, even if the container has its own /proc: these show nothing about processes. */
static int make_readonly(const char *path, struct plan *p, struct mlr_error *err)
{
	struct stat st;

	return !is_there(path, p, &st)
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
