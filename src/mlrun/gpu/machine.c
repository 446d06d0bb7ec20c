#include "gpu/machine.h"

#include "gpu/gpu.h"
#include "gpu/vendor.h"

#include <sys/utsname.h>

const char *const gpu_driver_names[] = { [GPU_DRIVER_NONE] = NULL,
	[GPU_DRIVER_NVIDIA] = "nvidia",
	[GPU_DRIVER_WSL] = "wsl",
	[GPU_DRIVER_TEGRA] = "tegra" };

struct gpu_file *gpu_machine_add_file(struct gpu_machine *m)
{
	*xadd(m->files, m->n_files) = (struct gpu_file){ .kind = GPU_LIBRARY };
	return &m->files[m->n_files - 1];
}

struct gpu *gpu_machine_add_gpu(struct gpu_machine *m)
{
	*xadd(m->gpus, m->n_gpus) = (struct gpu){ .index = -1 };
	return &m->gpus[m->n_gpus - 1];
}

struct gpu_node *gpu_node_add(struct gpu_node **v, size_t *n)
{
	*xadd(*v, *n) = (struct gpu_node){ .path = NULL };
	return &(*v)[*n - 1];
}

static const struct gpu_node *find(const struct gpu_node *v, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].path, path) == 0)
			return &v[i];
	return NULL;
}

const struct gpu_node *gpu_machine_node(const struct gpu_machine *m, const char *path)
{
	const struct gpu_node *found = find(m->nodes, m->n_nodes, path);

	if (!found)
		found = find(m->fabric, m->n_fabric, path);
	for (size_t i = 0; !found && i < m->n_gpus; i++) {
		const struct gpu *g = &m->gpus[i];

		found = g->node.path && strcmp(g->node.path, path) == 0
			? &g->node
			: find(g->drm, g->n_drm, path);
	}
	return found;
}

const char *gpu_root(void)
{
	const char *root = getenv("MLRUN_GPU_ROOT");

	return root && *root ? root : "/";
}

/* Runs the vendors' finders one after the other. */

void gpu_machine_count(struct gpu_machine *m)
{
	int next[GPU_VENDORS] = { 0 };

	for (size_t i = 0; i < m->n_gpus; i++) {
		struct gpu *g = &m->gpus[i];

		g->index = g->node.path && g->node.error == 0 ? next[g->vendor]++ : -1;
	}
}

static int read_machine(const char *root, int with_files, unsigned caps, struct gpu_machine *ret,
	struct mlr_error *err)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct utsname u;
	int r = gpu_dir_open(root, &d);

	if (r < 0)
		return mlr_result(err, r, "GPUs: '%s'", root);
	for (int v = 0; r == 0 && v < GPU_VENDORS; v++)
		r = gpu_vendors[v].find(&d, with_files, caps, &m, err);
	TRY(r);
	gpu_machine_count(&m);
	uname(&u);
	m.processors = xstrdup(u.machine);
	*ret = take_struct(&m, GPU_MACHINE_INIT);
	return 0;
}

int gpu_machine_read(const char *root, struct gpu_machine *ret, struct mlr_error *err)
{
	return read_machine(root, 1, GPU_CAPABILITIES_ALL, ret, err);
}

int gpu_machine_read_for(
	const char *root, unsigned caps, struct gpu_machine *ret, struct mlr_error *err)
{
	return read_machine(root, 1, caps, ret, err);
}

int gpu_machine_read_gpus(const char *root, struct gpu_machine *ret, struct mlr_error *err)
{
	return read_machine(root, 0, 0, ret, err);
}
