#include "gpu/amd/amd.h"

#include "gpu/elf.h"

#define RUNTIME "libhsa-runtime64.so"

/* The directories of other projects' libraries. */
static const char *const system_dirs[] = { "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
	"/opt/amdgpu/lib/x86_64-linux-gnu", "/opt/amdgpu/lib64" };

static const struct row {
	const char *stem;
	unsigned caps;
	int is_theirs; /* ROCm's own, else the system's */
} rows[] = {
	{ RUNTIME, GPU_COMPUTE, 1 },
	{ "libhsakmt.so", GPU_COMPUTE, 1 },
	{ "libhsa-amd-aqlprofile64.so", GPU_COMPUTE, 1 },
	{ "libamdhip64.so", GPU_COMPUTE, 1 },
	{ "libhiprtc.so", GPU_COMPUTE, 1 },
	{ "libhiprtc-builtins.so", GPU_COMPUTE, 1 },
	{ "libamd_comgr.so", GPU_COMPUTE, 1 },
	{ "libamdocl64.so", GPU_COMPUTE, 1 },
	{ "librocprofiler-register.so", GPU_COMPUTE, 1 },
	{ "libroctracer64.so", GPU_COMPUTE, 1 },
	{ "libroctx64.so", GPU_COMPUTE, 1 },
	{ "librocm-core.so", GPU_COMPUTE, 1 },
	{ "librocm_smi64.so", GPU_COMPUTE | GPU_UTILITY, 1 },
	{ "libamd_smi.so", GPU_COMPUTE | GPU_UTILITY, 1 },
	{ "libdrm.so", GPU_COMPUTE | GPU_UTILITY, 0 },
	{ "libdrm_amdgpu.so", GPU_COMPUTE | GPU_UTILITY, 0 },
	{ "libnuma.so", GPU_COMPUTE, 0 },
	{ "libelf.so", GPU_COMPUTE, 0 },
};

/* Is name the stem, or the stem and a number, "libdrm.so.2.4.0"? */
static int is_named(const char *name, const char *stem)
{
	size_t len = strlen(stem);

	return strncmp(name, stem, len) == 0 &&
		(!name[len] ||
			(name[len] == '.' &&
				strspn(name + len, ".0123456789") == strlen(name + len)));
}

static int has_library(const struct gpu_dir *d, const char *dir, const char *stem)
{
	auto_strv struct strv names = STRV_INIT;

	if (gpu_dir_list(d, dir, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n; i++)
		if (is_named(names.v[i], stem))
			return 1;
	return 0;
}

/* The newest: /opt/rocm-6.10.0 is newer than /opt/rocm-6.9.1. */
static char *newest_root(const struct gpu_dir *d)
{
	auto_strv struct strv names = STRV_INIT;
	const char *best = NULL;

	gpu_dir_list(d, "/opt", &names);
	for (size_t i = 0; i < names.n; i++)
		if (strncmp(names.v[i], "rocm-", strlen("rocm-")) == 0 &&
			(!best || strverscmp(names.v[i], best) > 0))
			best = names.v[i];
	return best ? xasprintf("/opt/%s", best) : NULL;
}

/* The runtime's directory, to free(), and its root, "/opt/rocm" or "/usr"; NULL without ROCm. */
static char *find_runtime(const struct gpu_dir *d, char **root)
{
	const char *env = d->is_machine ? getenv("ROCM_PATH") : NULL;
	auto_free char *newest = newest_root(d);
	const char *const roots[] = { env && *env == '/' ? env : NULL, "/opt/rocm", newest };

	for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
		auto_free char *lib = roots[i] ? xasprintf("%s/lib", roots[i]) : NULL,
			       *lib64 = roots[i] ? xasprintf("%s/lib64", roots[i]) : NULL;

		if (!lib)
			continue;
		*root = xstrdup(roots[i]);
		if (has_library(d, lib, RUNTIME))
			return take_ptr(&lib);
		if (has_library(d, lib64, RUNTIME))
			return take_ptr(&lib64);
		free(*root);
	}
	*root = xstrdup("/usr");
	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		if (has_library(d, system_dirs[i], RUNTIME))
			return xstrdup(system_dirs[i]);
	free(take_ptr(root));
	return NULL;
}

/* Choose of several versions the one with the shortest link: links with fewer numbers lead to the
 * newer. */
static char *find_file(const struct gpu_dir *d, const char *dir, const char *stem)
{
	auto_strv struct strv names = STRV_INIT;
	const char *best = NULL;

	gpu_dir_list(d, dir, &names);
	for (size_t i = 0; i < names.n; i++)
		if (is_named(names.v[i], stem) && (!best || strlen(names.v[i]) < strlen(best)))
			best = names.v[i];
	if (!best)
		return NULL;
	auto_free char *path = xasprintf("%s/%s", dir, best);

	return gpu_dir_resolve(d, path, NULL);
}

static int add_library(
	const struct gpu_dir *d, const char *dir, const struct row *row, struct gpu_machine *m)
{
	auto_free char *path = find_file(d, dir, row->stem),
		       *link = xasprintf("%s/%s", dir, row->stem),
		       *text = gpu_dir_readlink(d, link);
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_close int fd = path ? gpu_dir_open_file(d, path) : -1;
	struct gpu_file *f;

	if (fd < 0 || gpu_elf_read(fd, &elf) < 0)
		return 0;
	f = gpu_machine_add_file(m);
	f->vendor = GPU_AMD;
	f->kind = GPU_LIBRARY;
	f->caps = row->caps;
	f->path = take_ptr(&path);
	f->bits = elf.bits;
	f->soname = take_ptr(&elf.soname);
	f->dev_link = text ? xstrdup(row->stem) : NULL;
	f->glibc = elf.glibc;
	return 1;
}

static int add_system_library(const struct gpu_dir *d, const struct row *row, struct gpu_machine *m)
{
	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		if (add_library(d, system_dirs[i], row, m))
			return 1;
	return 0;
}

static void add_program(
	const struct gpu_dir *d, const char *root, const char *name, struct gpu_machine *m)
{
	auto_free char *path = xasprintf("%s/bin/%s", root, name);
	struct stat st;
	char *real = gpu_dir_resolve(d, path, &st);
	struct gpu_file *f;

	if (!real || !S_ISREG(st.st_mode)) {
		free(real);
		return;
	}
	f = gpu_machine_add_file(m);
	f->vendor = GPU_AMD;
	f->kind = GPU_PROGRAM;
	f->caps = GPU_UTILITY;
	f->path = real;
	f->target = xasprintf("/usr/bin/%s", name);
}

/* Add the file of GPU names, at the path where libdrm_amdgpu looks; without it that library
 * complains on standard error. */
static void add_names(const struct gpu_dir *d, struct gpu_machine *m)
{
	static const char *const files[] = { "/opt/amdgpu/share/libdrm/amdgpu.ids",
		"/usr/share/libdrm/amdgpu.ids" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct stat st;
		char *real = gpu_dir_resolve(d, files[i], &st);

		if (!real || !S_ISREG(st.st_mode)) {
			free(real);
			continue;
		}
		*gpu_machine_add_file(m) = (struct gpu_file){ .kind = GPU_DATA,
			.vendor = GPU_AMD,
			.caps = GPU_COMPUTE | GPU_UTILITY,
			.path = real,
			.target = xstrdup(files[i]) };
	}
}

void gpu_rocm_find(const struct gpu_dir *d, struct gpu_machine *m)
{
	auto_free char *root = NULL, *dir = find_runtime(d, &root);

	if (!dir)
		return;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!add_library(d, dir, &rows[i], m) && !rows[i].is_theirs)
			add_system_library(d, &rows[i], m);
	add_program(d, root, "rocminfo", m);
	add_names(d, m);
}
