/*
 * The linker's cache, /etc/ld.so.cache, in the format "glibc-ld.so.cache1.1" of glibc's
 * sysdeps/generic/dl-cache.h, alone or behind the old "ld.so-1.7.0".
 */
#ifndef MLR_GPU_LDCACHE_H
#define MLR_GPU_LDCACHE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct gpu_ldcache_entry {
	char *name;    /* "libcuda.so.1" */
	char *path;    /* "/usr/lib/x86_64-linux-gnu/libcuda.so.1" */
	int32_t flags; /* 0x0303 for x86-64's libc6 (elf/cache.c) */
	uint32_t osversion;
	uint64_t hwcap;
	char *hwcaps; /* the subdirectory of glibc-hwcaps that hwcap names, "x86-64-v3"; NULL */
};

struct gpu_ldcache {
	struct gpu_ldcache_entry *v;
	size_t n;
};

#define GPU_LDCACHE_INIT \
	{                \
		NULL, 0  \
	}

void gpu_ldcache_done(struct gpu_ldcache *c);

/*
 * Go through a cache in its order; its bytes may be anything. Entries that ld.so would skip,
 * because their strings lie outside, are left out, as are names and paths that no file can have.
 *
 *   visit  is given an entry whose strings are data's own; what is not 0 ends the walk
 *
 * Returns what visit returned last, or -EPROTO for what is no such cache: another format or byte
 * order, cut short.
 */
int gpu_ldcache_walk(const void *data, size_t size,
	int (*visit)(void *ctx, const struct gpu_ldcache_entry *e), void *ctx,
	struct mlr_error *err);

/* Read a cache the same way. Returns 0, or -EPROTO also for one of more than 200,000 entries, or
 * whose strings take more than 32 MiB. */
int gpu_ldcache_parse(
	const void *data, size_t size, struct gpu_ldcache *ret, struct mlr_error *err);

/* Add an entry at the end; flags are those of libraries of this machine with so many bits. */
void gpu_ldcache_add(struct gpu_ldcache *c, const char *name, const char *path, int bits);

/* Take out the entries that are marked: marks has one byte for each, not 0 for these. Returns how
 * many. */
size_t gpu_ldcache_drop(struct gpu_ldcache *c, const char *marks);

/* Is the entry for programs of this machine with so many bits? */
int gpu_ldcache_fits(const struct gpu_ldcache_entry *e, int bits);

/*
 * The file's bytes, in the new format alone, as ld.so wants them: sorted so that a search by
 * _dl_cache_libcmp() finds them, entries of one name in their order in c. To free().
 */
size_t gpu_ldcache_print(const struct gpu_ldcache *c, char **ret);

#endif
