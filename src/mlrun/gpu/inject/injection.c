#include "gpu/inject/injection.h"

#include "base/base.h"

int gpu_injection_has(const struct gpu_injection *i, enum gpu_vendor vendor)
{
	const struct gpu_machine *m = i->machine;

	for (size_t k = 0; k < i->choice->n; k++)
		if (m->gpus[i->choice->v[k].gpu].vendor == vendor)
			return 1;
	if (vendor != GPU_NVIDIA)
		return 0;
	/* Under Windows, /proc does not list the GPUs. */
	return m->driver == GPU_DRIVER_WSL ||
		(m->driver == GPU_DRIVER_NVIDIA && i->wish->kind == GPU_WISH_DRIVER);
}

int gpu_injection_wants(const struct gpu_injection *i, unsigned caps)
{
	return (i->wish->caps & caps) != 0;
}

int gpu_injection_takes(const struct gpu_injection *i, const struct gpu_file *f)
{
	unsigned caps = f->caps & ~(unsigned)GPU_COMPAT32;

	if (!gpu_injection_has(i, f->vendor))
		return 0;
	if (f->kind == GPU_LIBRARY && f->bits == 32 && !gpu_injection_wants(i, GPU_COMPAT32))
		return 0;
	return caps == 0 || gpu_injection_wants(i, caps);
}

const char *gpu_injection_inside(const struct gpu_injection *i, const char *path)
{
	const char *root = i->machine->driver_root;

	return root && *root && path_below(path, root) ? path + strlen(root) : path;
}

int gpu_injection_bind(const struct gpu_injection *i, const char *path, const char *target,
	unsigned flags, struct mlr_error *err)
{
	const char *root = gpu_root();
	auto_free char *source =
		strcmp(root, "/") == 0 ? xstrdup(path) : xasprintf("%s%s", root, path);
	const struct plan *p = i->plan;

	for (size_t k = i->first; k < p->n_mounts; k++)
		if (p->mounts[k].kind == PLAN_BIND && strcmp(p->mounts[k].target, target) == 0)
			return 0;
	return plan_mount_add(i->plan, PLAN_BIND, source, target, flags, PLAN_FROM_GPU, err);
}
