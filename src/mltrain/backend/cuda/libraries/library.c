#include "backend/cuda/libraries/library.h"

#include <dlfcn.h>
#include <glob.h>

#ifndef CUDA_LIBDIR
#define CUDA_LIBDIR "/usr/local/cuda/lib64"
#endif

static void *open_file(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (handle)
		mlr_debug("cuda: '%s'", path);
	return handle;
}

/* Where NVIDIA's packages lie in a Python environment; `local` is where Debian's pip installs. */
static void *open_in_environment(const char *prefix, const char *soname)
{
	static const char *const under[] = { "", "/local" };
	void *handle = NULL;

	for (size_t i = 0; i < ARRAY_LEN(under) && !handle; i++) {
		auto_free char *pattern = xasprintf(
			"%s%s/lib*/python3*/*-packages/nvidia/*/lib/%s", prefix, under[i], soname);
		glob_t found = { 0 };

		if (glob(pattern, 0, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc && !handle; k++)
				handle = open_file(found.gl_pathv[k]);
		globfree(&found);
	}
	return handle;
}

/* The environment whose bin/ has this file, by that name. */
static void *open_beside(const char *python, const char *soname)
{
	auto_free char *prefix = xstrdup(python);

	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(prefix, '/');

		if (!slash)
			return NULL;
		*slash = '\0';
	}
	return open_in_environment(prefix, soname);
}

/* python3's environment, as its name on $PATH has it and as its file does. */
static void *open_beside_python(const char *soname)
{
	auto_free char *path = xstrdup(getenv("PATH") ? getenv("PATH") : "");
	char *rest = path, *dir;

	while ((dir = strsep(&rest, ":"))) {
		auto_free char *python = xasprintf("%s/python3", dir), *file = NULL;
		void *handle;

		if (dir[0] != '/' || access(python, X_OK) < 0)
			continue;
		handle = open_beside(python, soname);
		file = handle ? NULL : realpath(python, NULL);
		return file ? open_beside(file, soname) : handle;
	}
	return NULL;
}

static void *open_of_python(const char *soname)
{
	static const char *const variables[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
	void *handle = NULL;

	for (size_t i = 0; i < ARRAY_LEN(variables) && !handle; i++) {
		const char *prefix = getenv(variables[i]);

		if (prefix && prefix[0] == '/')
			handle = open_in_environment(prefix, soname);
	}
	return handle ? handle : open_beside_python(soname);
}

static void *open_anywhere(const char *soname, char *why, size_t size)
{
	static const char *const dirs[] = { "", CUDA_LIBDIR "/", "/usr/local/cuda/lib64/" };
	const char *said;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		auto_free char *path = xasprintf("%s%s", dirs[i], soname);
		void *handle = open_file(path);

		if (handle)
			return handle;
		said = dlerror();
		if (i == 0) /* the other places are guesses, of which nobody need know */
			snprintf(why, size, "%s", said ? said : "unknown error");
	}
	return open_of_python(soname);
}

int library_open(
	const char *soname, const struct library_symbol *symbols, size_t n, struct mlr_error *err)
{
	char why[256] = "";
	void *handle = open_anywhere(soname, why, sizeof(why));

	if (!handle) {
		mlr_fail(err, ENOENT, "%s", why);
		return mlr_hint(err,
			"searched: the linker's places, " CUDA_LIBDIR ", /usr/local/cuda/lib64 and "
			"site-packages/nvidia of VIRTUAL_ENV, CONDA_PREFIX and python3. Install it "
			"there, by pip for example, or set LD_LIBRARY_PATH, or use --backend "
			"onednn");
	}
	for (size_t i = 0; i < n; i++) {
		void *found = dlsym(handle, symbols[i].name);

		if (!found)
			return mlr_fail(err, ENOENT, "%s has no %s", soname, symbols[i].name);
		memcpy(symbols[i].at, &found, sizeof(found));
	}
	return 0;
}
