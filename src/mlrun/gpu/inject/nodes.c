/*
 * Adds device nodes and the links to them (libnvidia-container, src/nvc_mount.c;
 * nvidia-container-toolkit, internal/platform-support/dgpu). They are bound read-only, which
 * protects their modes; reading and writing the devices still works.
 */
#include "gpu/inject/inject.h"
#include "gpu/vendor.h"

#define NODE_FLAGS (PLAN_READONLY | PLAN_NOSUID | PLAN_NOEXEC)
#define IMEX_NODE  "/dev/nvidia-caps-imex-channels/channel"

/* The nodes that NVIDIA_GDS=enabled and so on add. */
static const struct {
	enum gpu_extra extra;
	const char *variable;
	const char *nodes[2]; /* prefixes of their paths */
} extras[] = {
	{ GPU_EXTRA_GDS, "NVIDIA_GDS", { "/dev/nvidia-fs" } },
	{ GPU_EXTRA_MOFED, "NVIDIA_MOFED",
		{ "/dev/infiniband/uverbs", "/dev/infiniband/rdma_cm" } },
	{ GPU_EXTRA_NVSWITCH, "NVIDIA_NVSWITCH", { "/dev/nvidia-nvswitch" } },
	{ GPU_EXTRA_GDRCOPY, "NVIDIA_GDRCOPY", { "/dev/gdrdrv" } },
};

static int add_node(const struct gpu_injection *i, const struct gpu_node *n, struct mlr_error *err)
{
	/* A missing or wrong node was reported when the machine was read. */
	if (!n->path || n->error == ENOENT || n->error == ENXIO)
		return 0;
	return gpu_injection_bind(i, n->path, gpu_injection_inside(i, n->path), NODE_FLAGS, err);
}

/* On the host CUDA calls nvidia-modprobe to make them, which is setuid root and useless inside. */
static void note_lack(const struct gpu_injection *i, const struct gpu_control *c)
{
	auto_free char *why = i->choice->n ? gpu_control_lack(i->machine, i->wish->caps, c) : NULL;

	if (why)
		strv_addf(&i->plan->notes, "CUDA finds no GPU in the container: %s", why);
}

static int add_controls(
	const struct gpu_injection *i, const struct gpu_control *c, struct mlr_error *err)
{
	for (; c->path; c++) {
		const struct gpu_node *n = gpu_machine_node(i->machine, c->path);

		if (c->caps && !gpu_injection_wants(i, c->caps))
			continue;
		note_lack(i, c);
		if (n)
			TRY(add_node(i, n, err));
	}
	return 0;
}

/* As udev(7) names it: /dev/dri/by-path/pci-0000:3b:00.0-card. */
static int add_by_path(
	const struct gpu_injection *i, const struct gpu *g, const char *node, struct mlr_error *err)
{
	const char *name = path_base(node);
	const char *what = strncmp(name, "card", 4) == 0 ? "card"
		: strncmp(name, "renderD", 7) == 0       ? "render"
							 : NULL;
	auto_free char *text = xasprintf("../%s", name);
	auto_free char *link = xasprintf("/dev/dri/by-path/pci-%s-%s", g->bus_id, what ? what : "");

	return what ? plan_mount_add(i->plan, PLAN_SYMLINK, text, link, 0, PLAN_FROM_GPU, err) : 0;
}

static int add_drm(const struct gpu_injection *i, const struct gpu *g, struct mlr_error *err)
{
	for (size_t k = 0; k < g->n_drm; k++) {
		TRY(add_node(i, &g->drm[k], err));
		if (g->drm[k].path)
			TRY(add_by_path(i, g, g->drm[k].path, err));
	}
	return 0;
}

static int add_mig(const struct gpu_injection *i, const struct gpu_mig *part, struct mlr_error *err)
{
	if (!i->machine->has_caps)
		return 0;
	TRY(add_node(i, &part->gi_node, err));
	return add_node(i, &part->ci_node, err);
}

static int add_gpu(const struct gpu_injection *i, const struct gpu_chosen *c, struct mlr_error *err)
{
	const struct gpu *g = &i->machine->gpus[c->gpu];
	unsigned drm_caps = gpu_vendors[g->vendor].drm_caps;

	TRY(add_node(i, &g->node, err));
	for (size_t k = 0; k < g->n_mig; k++)
		if (c->mig < 0 || (size_t)c->mig == k)
			TRY(add_mig(i, &g->mig[k], err));
	if (!drm_caps || gpu_injection_wants(i, drm_caps))
		TRY(add_drm(i, g, err));
	return 0;
}

static int is_of(const char *path, const char *const nodes[2])
{
	for (size_t k = 0; k < 2; k++)
		if (nodes[k] && strncmp(path, nodes[k], strlen(nodes[k])) == 0)
			return 1;
	return 0;
}

static int add_extras(const struct gpu_injection *i, struct mlr_error *err)
{
	const struct gpu_machine *m = i->machine;
	int r = 0;

	for (size_t e = 0; r == 0 && e < ARRAY_LEN(extras); e++) {
		size_t n = 0;

		if (!(i->wish->extras & extras[e].extra))
			continue;
		for (size_t k = 0; r == 0 && k < m->n_fabric; k++)
			if (is_of(m->fabric[k].path, extras[e].nodes)) {
				r = add_node(i, &m->fabric[k], err);
				n++;
			}
		if (n == 0)
			plan_remark_add(i->plan, PLAN_FROM_GPU,
				"%s=enabled brings nothing: this machine has no %s*",
				extras[e].variable, extras[e].nodes[0]);
	}
	return r;
}

static int add_imex(const struct gpu_injection *i, struct mlr_error *err)
{
	int r = 0;

	for (size_t k = 0; r == 0 && k < i->wish->imex.n; k++) {
		auto_free char *path = xasprintf(IMEX_NODE "%s", i->wish->imex.v[k]);
		const struct gpu_node *n = gpu_machine_node(i->machine, path);

		if (n)
			r = add_node(i, n, err);
		else
			plan_remark_add(i->plan, PLAN_FROM_GPU,
				"IMEX channel %s is missing: this machine has no '%s'",
				i->wish->imex.v[k], path);
	}
	return r;
}

int gpu_nodes_plan(const struct gpu_injection *i, struct mlr_error *err)
{
	for (int v = 0; v < GPU_VENDORS; v++)
		if (gpu_injection_has(i, (enum gpu_vendor)v))
			TRY(add_controls(i, gpu_vendors[v].controls, err));
	for (size_t k = 0; k < i->choice->n; k++)
		TRY(add_gpu(i, &i->choice->v[k], err));
	if (i->choice->n > 0)
		TRY(add_extras(i, err));
	return i->choice->n > 0 ? add_imex(i, err) : 0;
}

/*
 * Builds the container's /proc/driver/nvidia: the driver's own files and only the container's GPUs
 * (libnvidia-container, src/nvc_mount.c, mount_procfs).
 */

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
		return mlr_result(err, r, "GPUs: '%s'", gpu_root());
	for (size_t k = 0; r == 0 && k < ARRAY_LEN(names); k++)
		r = add_text(i, &d, names[k], err);
	return r;
}

static int add_path(const struct gpu_injection *i, const char *path, struct mlr_error *err)
{
	return path ? gpu_injection_bind(i, path, path, PLAN_READONLY | PROC_FLAGS, err) : 0;
}

static int add_proc(
	const struct gpu_injection *i, const struct gpu_chosen *c, struct mlr_error *err)
{
	const struct gpu *g = &i->machine->gpus[c->gpu];

	TRY(add_path(i, g->proc_dir, err));
	for (size_t k = 0; k < g->n_mig; k++)
		if (c->mig < 0 || (size_t)c->mig == k) {
			TRY(add_path(i, g->mig[k].gi_access, err));
			TRY(add_path(i, g->mig[k].ci_access, err));
		}
	return 0;
}

int gpu_procfs_plan(const struct gpu_injection *i, struct mlr_error *err)
{
	const char *at = place();

	if (i->machine->driver != GPU_DRIVER_NVIDIA || !gpu_injection_has(i, GPU_NVIDIA))
		return 0;
	TRY(plan_mount_add(i->plan, PLAN_TMPFS, NULL, at, PROC_FLAGS, PLAN_FROM_GPU, err));
	TRY(add_texts(i, err));
	for (size_t k = 0; k < i->choice->n; k++)
		TRY(add_proc(i, &i->choice->v[k], err));
	return plan_mount_add(i->plan, PLAN_SEAL, NULL, at, 0, PLAN_FROM_GPU, err);
}

int gpu_procfs_hide(struct plan *p, struct mlr_error *err)
{
	if (access(PROC_DIR, F_OK) < 0)
		return 0;
	return plan_mount_add(
		p, PLAN_TMPFS, NULL, PROC_DIR, PLAN_READONLY | PROC_FLAGS, PLAN_FROM_GPU, err);
}
