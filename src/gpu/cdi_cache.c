#include "gpu/cdi_cache.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "gpu/cdi_links.h"
#include "gpu/elf.h"
#include "gpu/ldcache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE     "/etc/ld.so.cache"
#define CACHE_MAX (16u << 20) /* bytes */

static int read_cache(const struct gpu_image *image, struct gpu_ldcache *ret, struct mlr_error *err)
{
	auto_close int fd = image->open(image->ctx, CACHE);
	auto_free char *data = NULL;
	struct stat st;
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail(err, fd < 0 ? -fd : errno, "'" CACHE "' of the image: %s",
			strerror(fd < 0 ? -fd : errno));
	if (st.st_size > CACHE_MAX)
		return mlr_fail(err, EFBIG, "'" CACHE "' of the image is larger than %u MiB",
			CACHE_MAX >> 20);
	data = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(fd, data, (size_t)st.st_size);
	if (n < 0)
		return mlr_fail(err, (int)-n, "'" CACHE "' of the image: %s", strerror((int)-n));
	if (gpu_ldcache_parse(data, (size_t)n, ret, err) < 0)
		return mlr_wrap(err, "'" CACHE "' of the image");
	return 0;
}

/*
 * Does the cache know a file already: by its path, or as the end of a link, "libz.so.1.2.13" of
 * "libz.so.1"? Then it was there when the image was made, and need not be read.
 */
static int is_known(const struct gpu_ldcache *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++) {
		size_t len = strlen(c->v[i].path);

		if (strncmp(c->v[i].path, path, len) == 0 &&
			(path[len] == '\0' || path[len] == '.') && strstr(c->v[i].path, ".so."))
			return 1;
		if (strcmp(c->v[i].path, path) == 0)
			return 1;
	}
	return 0;
}

static int is_native(int fd)
{
	unsigned char head[MACHINE_ELF_HEAD];
	ssize_t n = pread(fd, head, sizeof(head), 0);
	const struct machine *m = n < 0 ? NULL : machine_of_elf(head, (size_t)n);

	return m && machine_is_native(m);
}

/* The name by which programs ask for a file, to free(); NULL: it is no library, or one with another
 * name in names. */
static char *name_of(const struct gpu_elf *elf, const char *file, const struct strv *names)
{
	size_t len = strlen(file);

	if (!elf->soname || strcmp(elf->soname, file) == 0)
		return xstrdup(file);
	if (len > 3 && strcmp(file + len - 3, ".so") == 0)
		return xstrdup(file);
	return strv_has(names, elf->soname) || strchr(elf->soname, '/') ? NULL
									: xstrdup(elf->soname);
}

static int add_file(const struct gpu_image *image, const char *folder, const char *file,
	const struct strv *names, struct gpu_ldcache *c)
{
	auto_free char *path = xasprintf("%s/%s", folder, file), *name = NULL;
	auto_call(gpu_elf_done) struct gpu_elf elf = GPU_ELF_INIT;
	auto_close int fd = -1;

	if (!gpu_cdi_is_library(file) || is_known(c, path))
		return 0;
	fd = image->open(image->ctx, path);
	if (fd < 0 || !is_native(fd) || gpu_elf_read(fd, &elf) < 0)
		return 0;
	name = name_of(&elf, file, names);
	if (!name)
		return 0;
	gpu_ldcache_drop(c, name, elf.bits);
	gpu_ldcache_add(c, name, path, elf.bits);
	return 1;
}

int gpu_cdi_cache_merge(const struct gpu_image *image, const struct strv *folders, char **ret,
	size_t *size, struct mlr_error *err)
{
	auto_call(gpu_ldcache_done) struct gpu_ldcache c = GPU_LDCACHE_INIT;
	int added = 0, r = read_cache(image, &c, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < folders->n; i++) {
		auto_strv struct strv names = STRV_INIT;

		if (image->list(image->ctx, folders->v[i], &names) < 0)
			continue;
		strv_sort(&names);
		for (size_t k = 0; k < names.n; k++)
			added += add_file(image, folders->v[i], names.v[k], &names, &c);
	}
	*ret = NULL;
	if (added > 0)
		*size = gpu_ldcache_print(&c, ret);
	return added;
}
