#include "gpu/inject/inject.h"

#include "gpu/vendor.h"

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

#define PROFILE_DIR "/etc/nvidia/nvidia-application-profiles-rc.d"
#define X_SERVER    "libglxserver_nvidia.so"

/* Programs, configuration and firmware are read-only; sockets are written to. Only the driver loads
 * firmware, usually long before. */
static unsigned flags_of(enum gpu_file_kind kind)
{
	unsigned firmware = kind == GPU_FIRMWARE ? PLAN_OPTIONAL : 0;

	return kind == GPU_SOCKET ? PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC
				  : PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV | firmware;
}

/* The X server loads its module by a name without a version: add a link to the file. */
static int is_x_link(const struct gpu_file *f, const char *target)
{
	return strcmp(path_base(target), X_SERVER) == 0 &&
		strncmp(path_base(f->path), X_SERVER ".", strlen(X_SERVER ".")) == 0;
}

static int add_file(const struct gpu_injection *i, const struct gpu_file *f, struct mlr_error *err)
{
	const char *target = f->target ? f->target : gpu_injection_inside(i, f->path);

	/* A directory of sockets in /tmp comes with /tmp. */
	if (f->kind == GPU_SOCKET && strcmp(gpu_root(), "/") == 0 && strcmp(target, f->path) == 0 &&
		plan_covers(i->plan, target))
		return 0;
	if (is_x_link(f, target))
		return plan_mount_add(
			i->plan, PLAN_SYMLINK, path_base(f->path), target, 0, PLAN_FROM_GPU, err);
	return gpu_injection_bind(i, f->path, target, flags_of(f->kind), err);
}

static int add_files(const struct gpu_injection *i, enum gpu_file_kind kind, struct mlr_error *err)
{
	for (size_t k = 0; k < i->machine->n_files; k++)
		if (i->machine->files[k].kind == kind &&
			gpu_injection_takes(i, &i->machine->files[k]))
			TRY(add_file(i, &i->machine->files[k], err));
	return 0;
}

/* Add what GPUDirect Storage reads besides its nodes. */
static int add_storage(const struct gpu_injection *i, struct mlr_error *err)
{
	static const char *const paths[] = { "/run/udev", "/etc/cufile.json" };

	if (!(i->wish->extras & GPU_EXTRA_GDS) || i->choice->n == 0)
		return 0;
	for (size_t k = 0; k < ARRAY_LEN(paths); k++) {
		const char *root = gpu_root();
		auto_free char *source = xasprintf("%s%s", strcmp(root, "/") ? root : "", paths[k]);

		if (access(source, R_OK) == 0)
			TRY(gpu_injection_bind(i, paths[k], paths[k],
				PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV, err));
	}
	return 0;
}

/*
 * Write a profile that shows EGL the container's GPUs in every program (libnvidia-container,
 * src/nvc_mount.c, update_app_profile). The mask counts minor numbers.
 */
static int add_profile(const struct gpu_injection *i, struct mlr_error *err)
{
	auto_free char *text = NULL;
	uint64_t mask = 0;

	for (size_t k = 0; k < i->choice->n; k++) {
		const struct gpu *g = &i->machine->gpus[i->choice->v[k].gpu];

		if (g->vendor == GPU_NVIDIA && g->minor < 64)
			mask |= UINT64_C(1) << g->minor;
	}
	if (!mask || !gpu_injection_wants(i, GPU_GRAPHICS | GPU_DISPLAY))
		return 0;
	text = xasprintf("{\"profiles\": [{\"name\": \"_container_\", \"settings\": "
			 "[\"EGLVisibleDGPUDevices\", 0x%" PRIx64 "]}], "
			 "\"rules\": [{\"pattern\": [], \"profile\": \"_container_\"}]}\n",
		mask);
	TRY(plan_mount_add(i->plan, PLAN_TMPFS, NULL, PROFILE_DIR,
		PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC, PLAN_FROM_GPU, err));
	TRY(plan_file_add(
		i->plan, text, strlen(text), PROFILE_DIR "/10-container.conf", PLAN_FROM_GPU, err));
	return plan_mount_add(i->plan, PLAN_SEAL, NULL, PROFILE_DIR, 0, PLAN_FROM_GPU, err);
}

static void forget(struct plan *p, const char *name)
{
	if (plan_env_origin(p, name) != PLAN_FROM_CALLER)
		return;
	plan_env_unset(p, name);
	strv_add(&p->dropped, name);
}

/* The caller's value counts GPUs that the container does not have. */
static void set_visible(struct plan *p, const char *name, const char *value)
{
	if (plan_origin_is_asked(plan_env_origin(p, name)))
		plan_remark_add(p, PLAN_FROM_GPU, "%s is left as it was set", name);
	else if (value)
		plan_env_set(p, name, value, PLAN_FROM_GPU);
	else
		forget(p, name);
}

static void set_variables(const struct gpu_injection *i)
{
	struct plan *p = i->plan;

	for (int v = 0; v < GPU_VENDORS; v++) {
		const struct gpu_vendor_row *row = &gpu_vendors[v];

		if (!gpu_injection_has(i, (enum gpu_vendor)v))
			continue;
		set_visible(p, row->visible, i->choice->visible[v]);
		for (const char *const *name = row->within; *name; name++)
			forget(p, *name);
		if (row->borrowed && !gpu_injection_has(i, GPU_NVIDIA))
			forget(p, row->borrowed);
	}
}

static int inject(const struct gpu_injection *i, struct mlr_error *err)
{
	size_t first = i->plan->n_mounts;

	TRY(gpu_nodes_plan(i, err));
	TRY(gpu_procfs_plan(i, err));
	TRY(gpu_libraries_plan(i, err));
	TRY(add_files(i, GPU_PROGRAM, err));
	TRY(add_files(i, GPU_DATA, err));
	TRY(add_profile(i, err));
	TRY(add_storage(i, err));
	TRY(add_files(i, GPU_SOCKET, err));
	plan_mounts_into_image(i->plan, first);
	/* Last: the path leads through /lib, a link in most images, after which each mount takes
	 * longer. */
	return add_files(i, GPU_FIRMWARE, err);
}

int gpu_inject(const struct gpu_machine *m, const struct gpu_wish *w, const struct gpu_choice *c,
	const struct gpu_image *image, struct plan *p, struct mlr_error *err)
{
	auto_call(gpu_compat_done) struct gpu_compat compat = { 0 };
	const struct gpu_injection i = { m, w, c, image, &compat, p, p->n_mounts };
	int r = 0;

	if (gpu_injection_has(&i, GPU_NVIDIA) && gpu_injection_wants(&i, GPU_COMPUTE | GPU_VIDEO))
		TRY(mlr_result(err, gpu_compat_read(image, m, &compat), "forward compatibility"));
	if (compat.why)
		plan_remark_add(p, PLAN_FROM_GPU, "%s", compat.why);
	r = inject(&i, err);
	if (r == 0)
		set_variables(&i);
	return r;
}
