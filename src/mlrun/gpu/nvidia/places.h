/*
 * Directories that hold the driver's libraries, whoever packaged it.
 *
 * Looked into, in this order, links resolved and each once:
 *
 *   - those of LD_LIBRARY_PATH, on a real machine: a driver unpacked by hand
 *   - those that /etc/ld.so.cache finds libcuda, libnvidia-... and the like in
 *   - the usual ones: /usr/lib64, /usr/lib/<triplet>/nvidia/current, /usr/lib/<triplet>, /lib64,
 * /lib/<triplet>, /usr/lib64/nvidia, /usr/X11R6/lib64, /usr/local/nvidia/lib64,
 * /usr/local/nvidia/lib, /run/opengl-driver/lib, /usr/lib; for 32 bits
 * /usr/lib/<triplet>/nvidia/current, /usr/lib/<triplet>, /usr/lib32, /run/opengl-driver-32/lib,
 * /usr/X11R6/lib
 *
 * Kept are those that hold a library of the very version that the kernel runs; no directory is
 * listed. Where "/" has none, all is tried below /run/nvidia/driver, the root that NVIDIA's driver
 * container leaves.
 */
#ifndef MLR_GPU_PLACES_H
#define MLR_GPU_PLACES_H

#include "gpu/machine.h"
#include "gpu/root.h"

struct gpu_place {
	char *path; /* below the root, without links */
	int fd;     /* O_PATH */
	int bits;   /* of the driver's libraries in it */
};

struct gpu_places {
	const char *root;   /* "" or "/run/nvidia/driver" */
	struct gpu_dir dir; /* that root */
	struct gpu_place *v;
	size_t n;
};

#define GPU_PLACES_INIT                   \
	{                                 \
		"", GPU_DIR_INIT, NULL, 0 \
	}

void gpu_places_done(struct gpu_places *p);

/*
 * Find them for m->driver_version, or, where the kernel does not tell it, for the version of the
 * first libcuda.so.… or libnvidia-ml.so.…, which is set in m then. Where only libraries of another
 * version are found, that is one of m's warnings. Returns 0 or -errno; without any, n is 0.
 */
int gpu_places_find(const struct gpu_dir *d, struct gpu_machine *m, struct gpu_places *ret);

/* Is one of them for so many bits? */
int gpu_places_has(const struct gpu_places *p, int bits);

/* "name" in a place: an O_RDONLY descriptor and its path without links, to free(); or -errno. */
int gpu_place_open(
	const struct gpu_places *p, const struct gpu_place *at, const char *name, char **ret_path);

#endif
