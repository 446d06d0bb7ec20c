/* Runs the vendors' finders one after the other. */
#include "gpu/machine.h"

#include "base/base.h"
#include "gpu/root.h"
#include "gpu/vendor.h"

#include <sys/utsname.h>

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
		return mlr_fail(err, -r, "GPUs: '%s': %s", root, strerror(-r));
	for (int v = 0; r == 0 && v < GPU_VENDORS; v++)
		r = gpu_vendors[v].find(&d, with_files, caps, &m, err);
	if (r < 0)
		return r;
	gpu_machine_count(&m);
	uname(&u);
	m.processors = xstrdup(u.machine);
	*ret = m;
	m = (struct gpu_machine)GPU_MACHINE_INIT;
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
