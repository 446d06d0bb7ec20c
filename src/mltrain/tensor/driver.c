#include "tensor/driver.h"

#include <dlfcn.h>

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "unknown-linux-gnu"
#endif

static const char *const dirs[] = {
	"/usr/local/nvidia/lib64", /* cloud machines and their containers */
	"/usr/local/nvidia/lib",
	"/usr/lib64",
	"/usr/lib64/nvidia",
	"/usr/lib/" TRIPLET,
	"/usr/lib/" TRIPLET "/nvidia/current", /* Debian */
	"/run/opengl-driver/lib",              /* NixOS */
	"/run/nvidia/driver/usr/lib64",        /* NVIDIA's driver container */
	"/run/nvidia/driver/usr/lib/" TRIPLET,
	"/usr/lib/wsl/lib",
};

/* Load the first that loads; why gets the reason of the first that exists but does not. */
static void *open_known(const char *root, const char *soname, char **why)
{
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		auto_free char *path = xasprintf("%s%s/%s", root, dirs[i], soname);
		void *handle;

		if (access(path, F_OK) < 0)
			continue;
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (handle)
			return handle;
		if (!*why)
			*why = xstrdup(dlerror());
	}
	return NULL;
}

void *driver_library_open(const char *root, const char *soname, struct mlr_error *err)
{
	void *handle = *root ? NULL : dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	auto_free char *why = NULL;

	if (!handle)
		handle = open_known(root, soname, &why);
	if (handle)
		return handle;
	if (why)
		mlr_fail(err, ELIBACC, "load NVIDIA's driver: %s", why);
	else
		mlr_fail(err, ENOENT,
			"NVIDIA's driver was not found: the linker knows no %s, nor is it in '%s%s' "
			"or the other usual directories",
			soname, root, dirs[0]);
	mlr_hint(err, "name the directory of %s in LD_LIBRARY_PATH", soname);
	return NULL;
}
