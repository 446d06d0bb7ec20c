/*
 * gpu: reads the host's GPU driver and adds GPUs to a plan.
 *
 * It needs nothing of NVIDIA's toolkit and only reads files. /proc, /sys, /dev and the library
 * directories show the driver and its GPUs (machine.h); --gpu and the variables of image and caller
 * are the wish (wish.h); the job's variables and cgroup are its share (choice.h,
 * gpu_allocation_read). gpu_choose() intersects them, and inject.h adds the result to the plan.
 * Specification: libnvidia-container and nvidia-container-toolkit (src/nvc_info.c, pkg/nvcdi),
 * CDI's SPEC.md.
 */
#pragma once

#include "plan/plan.h"

enum gpu_look { GPU_LOOK_OPEN, GPU_LOOK_LIST };

/* Reads files of the image before it is mounted. Paths are absolute; links are followed inside the
 * image. */
struct gpu_image {
	/* Open a regular file with O_RDONLY; the caller closes it. Returns -errno; -ENOTSUP: this
	 * image cannot be read. */
	int (*open)(void *ctx, const char *path);
	/* Add the names in a directory, unsorted. Returns 0 or -errno. */
	int (*list)(void *ctx, const char *path, struct strv *ret);
	/* Does the regular file exist? Returns 0 or -errno. NULL: open() is used instead. */
	int (*has)(void *ctx, const char *path);
	/* A prefetch hint: path may soon be opened or listed. May be NULL. */
	void (*expect)(void *ctx, enum gpu_look what, const char *path);
	void *ctx;
	const char *processors; /* its machine, as in uname(2); NULL: this one's */
};

/* The inputs of the decision about GPUs. All pointers stay the caller's. */
struct gpu_request {
	const char *word;        /* --gpu: "auto", "all", "none" or a list of devices; NULL: auto */
	enum plan_origin origin; /* who set it; PLAN_FROM_NOBODY: the user */
	char *const *caller;     /* environ(7), which describes the job's allocation */
	const struct strv *image_env; /* the image's Env */
	const struct gpu_image *image;
	/* Adds devices named "vendor/class=device", which CDI files describe: cdi_plan(). */
	int (*plan_cdi)(const struct strv *names, const struct gpu_image *image, struct plan *p,
		struct mlr_error *err);
};

/*
 * The directory that this room takes for "/": $MLRUN_GPU_ROOT, a tree made for a test or recorded
 * on a machine, or "/". In such a tree a regular file stands for a device node.
 */
const char *gpu_root(void);

/*
 * Add the GPUs that are both wanted and available: device nodes, libraries, programs, firmware,
 * sockets, variables, /proc/driver/nvidia. Call it after the plan has its default mounts and its
 * environment, and before the user's own mounts, which win. Remarks explain each decision, for
 * --explain.
 *
 * Returns 0, also without a GPU unless one was named; -ENODEV for a named GPU that does not exist;
 * -EACCES for one that the user or the job may not use; -EINVAL for an invalid option or variable;
 * -ENOTSUP for an unsupported machine (Tegra) and for a requirement of the image
 * (NVIDIA_REQUIRE_...) that does not hold.
 */
int gpu_plan(const struct gpu_request *q, struct plan *p, struct mlr_error *err);

/*
 * Make the dynamic linker find p->libraries: add them to the image's /etc/ld.so.cache, or to what
 * its libc reads instead (linker.h). Call it last. Returns 0 or -errno; 0 without libraries.
 */
int gpu_link(const struct gpu_image *image, struct plan *p, struct mlr_error *err);
