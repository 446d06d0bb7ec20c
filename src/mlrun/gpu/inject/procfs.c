/*
 * Builds the container's /proc/driver/nvidia: the driver's own files and only the container's GPUs
 * (libnvidia-container, src/nvc_mount.c, mount_procfs).
 */
#include "gpu/inject/injection.h"

#include "base/base.h"
#include "gpu/root.h"

#define PROC_DIR   "/proc/driver/nvidia"
#define MAKES_NODE "ModifyDeviceFiles: 1"
#define PROC_FLAGS (PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC)

/* Where to mount an empty directory. With a fake tree, the real /proc may lack it, and none can be
 * created there. */
static const char *place(void)
{
	return access(PROC_DIR, F_OK) == 0 ? PROC_DIR : "/proc/driver";
}

/* The libraries would call mknod(2), which nobody inside may. */
static void forbid_nodes(char *params)
{
	char *at = strstr(params, MAKES_NODE);

	if (at)
		at[sizeof(MAKES_NODE) - 2] = '0';
}

static int add_text(const struct gpu_injection *i, const struct gpu_dir *d, const char *path,
	struct mlr_error *err)
{
	auto_free char *text = gpu_dir_read(d, path);

	if (!text)
		return 0;
	forbid_nodes(text);
	return plan_file_add(i->plan, text, strlen(text), path, PLAN_FROM_GPU, err);
}

static int add_texts(const struct gpu_injection *i, struct mlr_error *err)
{
	static const char *const names[] = { PROC_DIR "/params", PROC_DIR "/version",
		PROC_DIR "/registry" };
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	int r = gpu_dir_open(gpu_root(), &d);

	if (r < 0)
		return mlr_fail(err, -r, "GPUs: '%s': %s", gpu_root(), strerror(-r));
	for (size_t k = 0; r == 0 && k < ARRAY_LEN(names); k++)
		r = add_text(i, &d, names[k], err);
	return r;
}

static int add_path(const struct gpu_injection *i, const char *path, struct mlr_error *err)
{
	return path ? gpu_injection_bind(i, path, path, PLAN_READONLY | PROC_FLAGS, err) : 0;
}

static int add_gpu(const struct gpu_injection *i, const struct gpu_chosen *c, struct mlr_error *err)
{
	const struct gpu *g = &i->machine->gpus[c->gpu];
	int r = add_path(i, g->proc_dir, err);

	for (size_t k = 0; r == 0 && k < g->n_mig; k++)
		if (c->mig < 0 || (size_t)c->mig == k) {
			r = add_path(i, g->mig[k].gi_access, err);
			if (r == 0)
				r = add_path(i, g->mig[k].ci_access, err);
		}
	return r;
}

int gpu_procfs_plan(const struct gpu_injection *i, struct mlr_error *err)
{
	const char *at = place();
	int r;

	if (i->machine->driver != GPU_DRIVER_NVIDIA || !gpu_injection_has(i, GPU_NVIDIA))
		return 0;
	r = plan_mount_add(i->plan, PLAN_TMPFS, NULL, at, PROC_FLAGS, PLAN_FROM_GPU, err);
	if (r == 0)
		r = add_texts(i, err);
	for (size_t k = 0; r == 0 && k < i->choice->n; k++)
		r = add_gpu(i, &i->choice->v[k], err);
	return r < 0 ? r : plan_mount_add(i->plan, PLAN_SEAL, NULL, at, 0, PLAN_FROM_GPU, err);
}

int gpu_procfs_hide(struct plan *p, struct mlr_error *err)
{
	if (access(PROC_DIR, F_OK) < 0)
		return 0;
	return plan_mount_add(
		p, PLAN_TMPFS, NULL, PROC_DIR, PLAN_READONLY | PROC_FLAGS, PLAN_FROM_GPU, err);
}
