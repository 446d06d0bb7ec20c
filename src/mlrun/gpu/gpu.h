/*
 * gpu: looks at the host's GPU driver and adds to a plan.
 *
 * Nothing of NVIDIA's toolkit is needed and nothing but files is read: the driver and its GPUs are
 * found by /proc, /sys, /dev and the directories of libraries (machine.h), what is wanted by the
 * image's and the caller's variables and --gpu (wish.h), what the job has by its variables and its
 * cgroup (choice.h, gpu_allocation_read). The intersection (gpu_choose) is put into the plan as
 * entries of origin "gpu" (inject.h). Specification: libnvidia-container and
 * nvidia-container-toolkit (src/nvc_info.c, pkg/nvcdi), CDI's SPEC.md.
 */
#ifndef MLR_GPU_GPU_H
#define MLR_GPU_GPU_H

#include "base/error.h"
#include "base/strv.h"
#include "plan/plan.h"

enum gpu_look { GPU_LOOK_OPEN, GPU_LOOK_LIST };

/* The image, looked into before it is mounted; paths are absolute and links are followed inside. */
struct gpu_image {
	/* A regular file: an O_RDONLY descriptor, the caller's to close, or -errno. -ENOTSUP: this
	 * image cannot be looked into. */
	int (*open)(void *ctx, const char *path);
	/* Adds the names in a directory, in no order. Returns 0 or -errno. */
	int (*list)(void *ctx, const char *path, struct strv *ret);
	/* Is there such a regular file? Returns 0 or -errno, as open. NULL: it is opened to see. */
	int (*has)(void *ctx, const char *path);
	/* This will be opened or listed, perhaps: what takes a while may begin. NULL: nothing
	 * does. */
	void (*expect)(void *ctx, enum gpu_look what, const char *path);
	void *ctx;
	const char *processors; /* what it is for, as uname(2) calls them; NULL: this machine's */
};

/* The words that decide, all the caller's. */
struct gpu_request {
	const char *word;        /* --gpu: "auto", "all", "none" or a list of devices; NULL: auto */
	enum plan_origin origin; /* who has set it; PLAN_FROM_NOBODY: the user */
	char *const *caller;     /* environ(7): the job's allocation is told there */
	const struct strv *image_env; /* the image's Env */
	const struct gpu_image *image;
	/* Adds devices that the wish names as a CDI file does, "vendor/class=device": cdi_plan().
	 */
	int (*plan_cdi)(const struct strv *names, const struct gpu_image *image, struct plan *p,
		struct mlr_error *err);
};

/*
 * The directory that is this machine's "/" for all that the room reads: "/", or MLRUN_GPU_ROOT's
 * value, a tree that a test or a recorded machine is made of. In such a tree a regular file stands
 * for a device node.
 */
const char *gpu_root(void);

/*
 * Add what the wish and the machine have in common: device nodes, libraries, programs, firmware,
 * sockets, variables, /proc/driver/nvidia. To be called when the plan has its default mounts and
 * its environment, and before the user's own mounts, which win.
 *
 * Remarks of origin "gpu" tell each decision with its reason, for --explain.
 *
 * Returns 0, also when there is no GPU and nobody asked for one by name; -ENODEV for a GPU that was
 * asked for and is not there; -EACCES for one that the user or the job may not use; -EINVAL for
 * words that are wrong; -ENOTSUP for a machine that is refused (Tegra) and for a requirement of the
 * image's (NVIDIA_REQUIRE_...) that does not hold.
 */
int gpu_plan(const struct gpu_request *q, struct plan *p, struct mlr_error *err);

/*
 * Make the linker find p->libraries: the image's /etc/ld.so.cache with those added, or what its
 * libc reads in place of one (linker.h). Nothing to do without libraries. To be called when nothing
 * will be added any more. Returns 0 or -errno.
 */
int gpu_link(const struct gpu_image *image, struct plan *p, struct mlr_error *err);

#endif
