/* Finding the image's C library, for those who need not know its version. */
#ifndef MLR_GPU_LIBC_H
#define MLR_GPU_LIBC_H

#include "gpu/inject/linker.h"

/* Is there such a regular file? Returns 0 or -errno. */
int gpu_image_has(const struct gpu_image *image, const char *path);

/* Tell the image that the likeliest of its C libraries will be read; expect is not NULL. */
void gpu_libc_expect(const struct gpu_image *image);

/* Sets kind and, where there is one, path; the version stays unknown. */
void gpu_libc_find(const struct gpu_image *image, struct gpu_image_libc *ret);

#endif
