/* The linker's cache of an image into which other runtimes have mounted a driver: `mlrun gpu hook
 * update-ldcache`. */
#ifndef MLR_CDI_CACHE_H
#define MLR_CDI_CACHE_H

#include "base/strv.h"
#include "gpu/gpu.h"

/*
 * The image's /etc/ld.so.cache with the libraries of some directories, as ldconfig(8) would find
 * them there: by their SONAME, and by the links *.so. What the cache has of other directories under
 * these names is left out.
 *
 *   folders  absolute; what is no directory is skipped
 *
 * Returns the number of entries added, 0 with *ret NULL when there is nothing to add, and else
 * bytes to free(); -EPROTO for a cache that is none, or too large; -EFBIG where more than 10,000
 * libraries would have to be read.
 */
int cdi_cache_merge(const struct gpu_image *image, const struct strv *folders, char **ret,
	size_t *size, struct mlr_error *err);

#endif
