/* The image's C library and what makes its linker find libraries. */
#ifndef MLR_GPU_LINKER_H
#define MLR_GPU_LINKER_H

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

/* Tell the image what its C library's version and gpu_link() will be read of; expect is not
 * NULL. */
void gpu_link_expect(const struct gpu_image *image);

/*
 * The part of gpu_link() that is files: the image's linker cache with the plan's libraries, or
 * musl's list of directories.
 *
 *   because  gets why that does not do, to free(); is left alone where it does
 *
 * Returns 0 or -errno.
 */
int gpu_link_files(const struct gpu_image *image, enum gpu_libc libc, struct plan *p,
	char **because, struct mlr_error *err);

/* Is there such a regular file? Returns 0 or -errno. */
int gpu_image_has(const struct gpu_image *image, const char *path);

/* Tell the image that the likeliest of its C libraries will be read; expect is not NULL. */
void gpu_libc_expect(const struct gpu_image *image);

/* Sets kind and, where there is one, path; the version stays unknown. */
void gpu_libc_find(const struct gpu_image *image, struct gpu_image_libc *ret);

/* Look at the usual places of /lib, /lib64, /usr/lib and /usr/lib64. UNKNOWN: the image cannot be
 * looked into. */
void gpu_image_libc_read(const struct gpu_image *image, struct gpu_image_libc *ret);

/*
 * Names of files that need a newer glibc than the image has, "libcuda.so.580.65.06 (GLIBC_2.38)";
 * nothing when that is not known.
 *
 *   caps  whose libraries and programs are meant, enum gpu_capability
 *   p     only those that this plan binds; NULL: all
 */
void gpu_glibc_check(const struct gpu_machine *m, unsigned caps, const struct gpu_image_libc *l,
	const struct plan *p, struct strv *ret);

#endif
