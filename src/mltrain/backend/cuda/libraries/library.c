#include "backend/cuda/libraries/library.h"

#include "base/cleanup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef CUDA_LIBDIR
#define CUDA_LIBDIR "/usr/local/cuda/lib64"
#endif

static void *open_anywhere(const char *soname, char *why, size_t size)
{
	static const char *const dirs[] = { "", CUDA_LIBDIR "/", "/usr/local/cuda/lib64/" };
	const char *said;
	char path[256];
	void *handle;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s%s", dirs[i], soname);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (handle)
			return handle;
		said = dlerror();
		if (i == 0) /* the other places are guesses, of which nobody need know */
			snprintf(why, size, "%s", said ? said : "unknown error");
	}
	return NULL;
}

int library_open(
	const char *soname, const struct library_symbol *symbols, size_t n, struct mlr_error *err)
{
	char why[256] = "";
	void *handle = open_anywhere(soname, why, sizeof(why));

	if (!handle)
		return mlr_fail(err, ENOENT, "%s", why);
	for (size_t i = 0; i < n; i++) {
		void *found = dlsym(handle, symbols[i].name);

		if (!found)
			return mlr_fail(err, ENOENT, "%s has no %s", soname, symbols[i].name);
		memcpy(symbols[i].at, &found, sizeof(found));
	}
	return 0;
}
