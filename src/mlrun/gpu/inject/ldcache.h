/*
 * Reads and writes the linker's cache, /etc/ld.so.cache, in the format "glibc-ld.so.cache1.1" of
 * glibc's sysdeps/generic/dl-cache.h, alone or behind the old "ld.so-1.7.0".
 */
#pragma once

#include "base/base.h"

struct gpu_ldcache_entry {
	char *name;    /* "libcuda.so.1" */
	char *path;    /* "/usr/lib/x86_64-linux-gnu/libcuda.so.1" */
	int32_t flags; /* 0x0303 for x86-64's libc6 (elf/cache.c) */
	uint32_t osversion;
	uint64_t hwcap;
	char *hwcaps; /* subdirectory of glibc-hwcaps that hwcap selects, "x86-64-v3"; NULL */
};

struct gpu_ldcache {
	struct gpu_ldcache_entry *v;
	size_t n;
};

void gpu_ldcache_done(struct gpu_ldcache *c);

/*
 * Visit the entries of a cache in order. The bytes are not trusted. Entries that ld.so would skip,
 * because their strings lie outside the file, are skipped, and so are names and paths that no file
 * can have.
 *
 *   visit  gets an entry whose strings point into data; a result other than 0 ends the walk
 *
 * Returns the last result of visit, or -EPROTO for an invalid cache: another format or byte order,
 * or truncated.
 */
int gpu_ldcache_walk(const void *data, size_t size,
	int (*visit)(void *ctx, const struct gpu_ldcache_entry *e), void *ctx,
	struct mlr_error *err);

/* Read a whole cache. Returns 0, or -EPROTO also for more than 200,000 entries or more than 32 MiB
 * of strings. */
int gpu_ldcache_parse(
	const void *data, size_t size, struct gpu_ldcache *ret, struct mlr_error *err);

/* Append an entry, with the flags of this machine's libraries of 64 or 32 bits. */
void gpu_ldcache_add(struct gpu_ldcache *c, const char *name, const char *path, int bits);

/* Remove the entries i with marks[i] != 0. Returns how many. */
size_t gpu_ldcache_drop(struct gpu_ldcache *c, const char *marks);

/* Is the entry for this machine's programs of 64 or 32 bits? */
int gpu_ldcache_fits(const struct gpu_ldcache_entry *e, int bits);

/*
 * Make the file's bytes, in the new format, sorted for ld.so's binary search by _dl_cache_libcmp();
 * entries of one name stay in c's order. Returns their number; *ret to free().
 */
size_t gpu_ldcache_print(const struct gpu_ldcache *c, char **ret);
