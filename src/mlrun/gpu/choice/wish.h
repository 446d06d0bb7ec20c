/*
 * Reads which GPUs are wanted: from --gpu and the variables NVIDIA_VISIBLE_DEVICES,
 * NVIDIA_DRIVER_CAPABILITIES, NVIDIA_REQUIRE_..., NVIDIA_DISABLE_REQUIRE, NVIDIA_IMEX_CHANNELS,
 * NVIDIA_GDS, _MOFED, _NVSWITCH, _GDRCOPY, _MIG_CONFIG_DEVICES, _MIG_MONITOR_DEVICES.
 * nvidia-container-toolkit's other ways, files in /var/run/nvidia-container-devices and CDI
 * annotations, serve its own daemons and are not read.
 *
 * The user's value of a variable (-e, --env-file, configuration) wins, then the caller's, then the
 * image's: as in Enroot. For all other variables the image's value wins over the caller's.
 */
#pragma once

#include "gpu/gpu.h"
#include "gpu/machine.h"

enum gpu_wish_kind {
	GPU_WISH_NOTHING, /* not a GPU container */
	GPU_WISH_DRIVER,  /* NVIDIA_VISIBLE_DEVICES=none: the driver's files, no device */
	GPU_WISH_ALL,
	GPU_WISH_LIST,
};

enum gpu_extra {
	GPU_EXTRA_GDS = 1 << 0,
	GPU_EXTRA_MOFED = 1 << 1,
	GPU_EXTRA_NVSWITCH = 1 << 2,
	GPU_EXTRA_GDRCOPY = 1 << 3,
};

struct gpu_wish {
	enum gpu_wish_kind kind;
	/* GPU_WISH_LIST: "0", "GPU-…", "0000:3b:00.0", "0:1", "MIG-…", without repetitions. */
	struct strv devices;
	/* CDI names for cdi_plan(); those of nvidia.com/gpu are in devices, without the prefix. */
	struct strv cdi;
	int must;  /* --gpu or -e named it: unavailable devices are errors, not remarks */
	char *who; /* "--gpu=0,1", "the image's NVIDIA_VISIBLE_DEVICES=all", for messages */
	/*
	 * enum gpu_capability, without implied ones: display needs the libraries of graphics, video
	 * those of compute (and /dev/nvidia-uvm and the MPS directory). A driver's file lists all
	 * capabilities that bring it: compute's libraries GPU_COMPUTE | GPU_VIDEO, its programs
	 * GPU_COMPUTE.
	 */
	unsigned caps;
	char *caps_who;
	struct strv imex; /* channel numbers */
	unsigned extras;  /* enum gpu_extra; ignored without devices */
	/* "NVIDIA_REQUIRE_CUDA=cuda>=12.4 …", sorted; empty when disabled. */
	struct strv requirements;
	struct strv remarks; /* sentences: what was ignored and why, and which setting won */
};

#define GPU_WISH_INIT                    \
	{                                \
		.kind = GPU_WISH_NOTHING \
	}

/* Capabilities that bring the libraries of compute, and their nodes. */
#define GPU_CAPS_COMPUTE (GPU_COMPUTE | GPU_VIDEO)

void gpu_wish_done(struct gpu_wish *w);

/*
 * Read the wish. p has the environment; q->caller shows whether there is a job.
 *
 * --gpu: "auto" means NVIDIA_VISIBLE_DEVICES decides; "none" means not a GPU container; "all"; a
 * list. It wins over the variable, even over "void"; as a setting (MLRUN_GPU, mlrun.conf) it loses
 * to the user's -e.
 *
 * NVIDIA_VISIBLE_DEVICES: empty, or with "void" in it: nothing; "none": the driver's files; with
 * "all" in it: all; else a list, whose empty items are ignored.
 *
 * Without both: an image with CUDA_VERSION and no NVIDIA_REQUIRE_CUDA is of the first kind and
 * wants all; else all of the job's in a job; else all if the image contains CUDA (CUDA_VERSION,
 * /usr/local/cuda) or ROCm (ROCM_VERSION, /opt/rocm); else nothing.
 *
 * Returns 0; -EINVAL naming the variable and its valid values; -ENOTSUP for a wish of the user that
 * only root can have (NVIDIA_MIG_CONFIG_DEVICES, NVIDIA_MIG_MONITOR_DEVICES).
 */
int gpu_wish_read(const struct gpu_request *q, const struct plan *p, struct gpu_wish *ret,
	struct mlr_error *err);

/* The value of --gpu or of a setting, if it decides; NULL: NVIDIA_VISIBLE_DEVICES does. */
const char *gpu_wish_word(const struct gpu_request *q, const struct plan *p);

/* Print "compute,utility" and so on, to free(). */
char *gpu_capabilities_print(unsigned caps);
