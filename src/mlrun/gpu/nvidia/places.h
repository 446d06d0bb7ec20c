/*
 * Finds the directories that hold the driver's libraries, whoever packaged it.
 *
 * It searches in this order, with links resolved and repetitions skipped:
 *
 *   - LD_LIBRARY_PATH, on a real machine: a driver unpacked by hand
 *   - the directories in which /etc/ld.so.cache finds libcuda, libnvidia-... and the like
 *   - the usual ones: /usr/lib64, /usr/lib/<triplet>/nvidia/current, /usr/lib/<triplet>, /lib64,
 *     /lib/<triplet>, /usr/lib64/nvidia, /usr/X11R6/lib64, /usr/local/nvidia/lib64,
 *     /usr/local/nvidia/lib, /run/opengl-driver/lib, /usr/lib; for 32 bits
 *     /usr/lib/<triplet>/nvidia/current, /usr/lib/<triplet>, /usr/lib32, /run/opengl-driver-32/lib,
 *     /usr/X11R6/lib
 *
 * It keeps those that hold a library of exactly the kernel module's version, and lists no
 * directory. If "/" has none, it tries below /run/nvidia/driver, the root of NVIDIA's driver
 * container.
 */
#pragma once

#include "gpu/root.h"

struct gpu_place {
	char *path; /* below the root, resolved */
	int fd;     /* O_PATH */
	int bits;   /* 64 or 32: of the driver's libraries there */
};

struct gpu_places {
	const char *root;   /* "" or "/run/nvidia/driver" */
	struct gpu_dir dir; /* the root */
	struct gpu_place *v;
	size_t n;
};

#define GPU_PLACES_INIT                   \
	{                                 \
		"", GPU_DIR_INIT, NULL, 0 \
	}

void gpu_places_done(struct gpu_places *p);

/*
 * Find the directories for m->driver_version; if the kernel does not report it, set it from the
 * first libcuda.so.… or libnvidia-ml.so.…. If only libraries of another version exist, add a
 * warning to m. Returns 0 or -errno; n is 0 if none is found.
 */
int gpu_places_find(const struct gpu_dir *d, struct gpu_machine *m, struct gpu_places *ret);

/* Does one of them hold libraries of so many bits? */
int gpu_places_has(const struct gpu_places *p, int bits);

/* Open name in a place with O_RDONLY and resolve its path, to free(). Returns -errno. */
int gpu_place_open(
	const struct gpu_places *p, const struct gpu_place *at, const char *name, char **ret_path);
