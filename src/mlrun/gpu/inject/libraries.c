/*
 * Adds the driver's libraries, in directories of our own: each under its name, with the links by
 * which programs open it (libnvidia-container, src/nvc_mount.c, symlink_library;
 * nvidia-container-toolkit, internal/discover/symlinks.go). With forward compatibility, links to
 * the image's newer libraries replace the driver's of the same names.
 */

#include "gpu/inject/inject.h"
#include "gpu/vendor.h"

#include <sys/utsname.h>

#define FILE_FLAGS (PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV)
#define DIR_FLAGS  (PLAN_NOSUID | PLAN_NODEV)
#define ALLOCATOR  "libnvidia-allocator.so.1"
#define GBM_LINK   "gbm/nvidia-drm_gbm.so"

/* Either of the two directories. */
struct shelf {
	const struct gpu_injection *i;
	const char *dir;
	int bits;
	int is_made;
	struct strv names; /* names in it */
};

static void shelf_done(struct shelf *s)
{
	strv_done(&s->names);
}

/* Is s a valid file name? A library's SONAME is not trusted. */
static int is_name(const char *s)
{
	return *s && !strchr(s, '/') && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

static int make(struct shelf *s, struct mlr_error *err)
{
	if (s->is_made)
		return 0;
	s->is_made = 1;
	return plan_mount_add(s->i->plan, PLAN_TMPFS, NULL, s->dir, DIR_FLAGS, PLAN_FROM_GPU, err);
}

static void let_find(struct shelf *s, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", s->dir, name);

	plan_library_add(s->i->plan, name, path, s->bits, PLAN_FROM_GPU);
}

/* Add a link for the linker, unless the name is taken. */
static int add_link(struct shelf *s, const char *name, const char *to, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", s->dir, name);

	if (!is_name(name) || strcmp(name, to) == 0 || strv_has(&s->names, name))
		return 0;
	TRY(make(s, err));
	strv_add(&s->names, name);
	let_find(s, name);
	return plan_mount_add(s->i->plan, PLAN_SYMLINK, to, path, 0, PLAN_FROM_GPU, err);
}

static int add_links(
	struct shelf *s, const struct gpu_file *f, const char *to, struct mlr_error *err)
{
	const char *base = path_base(f->path);
	const char *soname = f->soname && is_name(f->soname) ? f->soname : base;
	int r = add_link(s, soname, to, err);

	if (r < 0 || !f->dev_link)
		return r;
	/* "libcuda.so" links to libcuda.so.1, another library's name to the file itself. */
	if (strv_has(&s->names, soname) && strncmp(soname, f->dev_link, strlen(f->dev_link)) == 0)
		to = soname;
	return add_link(s, f->dev_link, to, err);
}

/* Does the image itself contain this library, with a version of its own? */
static int is_replaced(const struct shelf *s, const struct gpu_file *f)
{
	return strv_has(&s->names, path_base(f->path)) ||
		(f->soname && strv_has(&s->names, f->soname));
}

static int add_library(struct shelf *s, const struct gpu_file *f, struct mlr_error *err)
{
	const char *base = path_base(f->path);
	auto_free char *target = f->target ? xstrdup(f->target) : xasprintf("%s/%s", s->dir, base);

	if (is_replaced(s, f))
		return 0;
	if (!f->target)
		TRY(make(s, err));
	TRY(gpu_injection_bind(s->i, f->path, target, FILE_FLAGS, err));
	if (f->target) /* a library that must keep the host's path is found by a link */
		return add_links(s, f, target, err);
	strv_add(&s->names, base);
	/* As in ldconfig(8): Python's ctypes takes the first libcuda.so.…. */
	if (!f->soname || strcmp(f->soname, base) == 0 || !is_name(f->soname))
		let_find(s, base);
	return add_links(s, f, base, err);
}

/* libcuda is found only by its SONAME, like the host's. */
static int add_compat(struct shelf *s, struct mlr_error *err)
{
	const struct gpu_compat *c = s->i->compat;

	for (size_t k = 0; k < c->libraries.n; k++) {
		const char *name = c->libraries.v[k];
		auto_free char *to = xasprintf("%s/%s", c->dir, name);
		int is_driver =
			strncmp(name, "libcuda.so.", 11) == 0 && strcmp(name + 11, c->version) == 0;

		TRY(add_link(s, is_driver ? "libcuda.so.1" : name, to, err));
	}
	return 0;
}

/* Add the driver where Mesa's libgbm looks: in the distribution's library directory. */
static int add_gbm(const struct shelf *s, struct mlr_error *err)
{
	auto_strv struct strv unused = STRV_INIT;
	auto_free char *multiarch = NULL, *target = NULL, *to = NULL;
	struct utsname u;

	if (s->bits != 64 || !strv_has(&s->names, ALLOCATOR) ||
		!gpu_injection_wants(s->i, GPU_GRAPHICS | GPU_DISPLAY))
		return 0;
	uname(&u);
	multiarch = xasprintf("/usr/lib/%s-linux-gnu", u.machine);
	if (s->i->image->list(s->i->image->ctx, multiarch, &unused) < 0)
		target = xstrdup("/usr/lib64/" GBM_LINK);
	else
		target = xasprintf("%s/" GBM_LINK, multiarch);
	to = xasprintf("%s/" ALLOCATOR, s->dir);
	return plan_mount_add(s->i->plan, PLAN_SYMLINK, to, target, 0, PLAN_FROM_GPU, err);
}

static int fill(struct shelf *s, const int *with, struct mlr_error *err)
{
	const struct gpu_machine *m = s->i->machine;
	int r = 0;

	if (s->bits == 64 && s->i->compat->use)
		r = add_compat(s, err);
	for (size_t k = 0; r == 0 && k < m->n_files; k++) {
		const struct gpu_file *f = &m->files[k];

		if (f->kind == GPU_LIBRARY && (f->bits == 32 ? 32 : 64) == s->bits &&
			with[f->vendor] && gpu_injection_takes(s->i, f))
			r = add_library(s, f, err);
	}
	if (r == 0)
		r = add_gbm(s, err);
	if (r < 0 || !s->is_made)
		return r;
	return plan_mount_add(s->i->plan, PLAN_SEAL, NULL, s->dir, 0, PLAN_FROM_GPU, err);
}

/* ROCm's libraries fit the programs built with them: the image's own are never replaced. */
static int image_lacks_own(const struct gpu_injection *i, enum gpu_vendor vendor)
{
	const char *own = gpu_vendors[vendor].image_own;
	auto_strv struct strv names = STRV_INIT;
	int r;

	if (!own || !gpu_injection_has(i, vendor))
		return 1;
	r = i->image->list(i->image->ctx, "/opt", &names);
	for (size_t k = 0; r == 0 && k < names.n; k++)
		if (strncmp(names.v[k], own, strlen(own)) == 0)
			return 0;
	if (r < 0 && r != -ENOENT)
		plan_remark_add(i->plan, PLAN_FROM_GPU,
			"the host's %s libraries are omitted: the image may have its own and cannot be read",
			gpu_vendors[vendor].title);
	return r == 0 || r == -ENOENT;
}

int gpu_libraries_plan(const struct gpu_injection *i, struct mlr_error *err)
{
	auto_call(shelf_done) struct shelf wide = { .i = i, .dir = GPU_LIB_DIR, .bits = 64 };
	auto_call(shelf_done) struct shelf narrow = { .i = i, .dir = GPU_LIB32_DIR, .bits = 32 };
	int with[GPU_VENDORS];

	for (int v = 0; v < GPU_VENDORS; v++)
		with[v] = image_lacks_own(i, (enum gpu_vendor)v);
	TRY(fill(&wide, with, err));
	return fill(&narrow, with, err);
}
