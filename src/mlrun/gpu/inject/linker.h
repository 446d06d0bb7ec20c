/* Finds the image's C library and makes its dynamic linker find the plan's libraries. */
#pragma once

#include "gpu/gpu.h"
#include "gpu/machine.h"

enum gpu_libc { GPU_LIBC_UNKNOWN, GPU_LIBC_NONE, GPU_LIBC_GLIBC, GPU_LIBC_MUSL };

struct gpu_image_libc {
	enum gpu_libc kind;
	struct gpu_version version; /* of glibc; zero: unknown */
	char *path;                 /* "/lib/x86_64-linux-gnu/libc.so.6"; NULL */
};

#define GPU_IMAGE_LIBC_INIT                       \
	{                                         \
		GPU_LIBC_UNKNOWN, { { 0 } }, NULL \
	}

void gpu_image_libc_done(struct gpu_image_libc *l);

/* Announce to the image the files that gpu_link() and the check of its C library will read; expect
 * is not NULL. */
void gpu_link_expect(const struct gpu_image *image);

/* Does the regular file exist in the image? Returns 0 or -errno. */
int gpu_image_has(const struct gpu_image *image, const char *path);

/* Announce to the image that its most likely C library will be read; expect is not NULL. */
void gpu_libc_expect(const struct gpu_image *image);

/* Find kind and path of the C library; the version stays unknown. */
void gpu_libc_find(const struct gpu_image *image, struct gpu_image_libc *ret);

/* Search /lib, /lib64, /usr/lib and /usr/lib64, and read the version. UNKNOWN: the image cannot be
 * read. */
void gpu_image_libc_read(const struct gpu_image *image, struct gpu_image_libc *ret);

/* List the files that the plan binds and that need a newer glibc than the image has:
 * "libcuda.so.580.65.06 (GLIBC_2.38)". Nothing if the version is unknown. */
void gpu_glibc_check(const struct gpu_machine *m, const struct gpu_image_libc *l,
	const struct plan *p, struct strv *ret);
