/*
 * What is wanted: --gpu, and the variables NVIDIA_VISIBLE_DEVICES, NVIDIA_DRIVER_CAPABILITIES,
 * NVIDIA_REQUIRE_..., NVIDIA_DISABLE_REQUIRE, NVIDIA_IMEX_CHANNELS, NVIDIA_GDS, _MOFED, _NVSWITCH,
 * _GDRCOPY, _MIG_CONFIG_DEVICES, _MIG_MONITOR_DEVICES. (nvidia-container-toolkit's other ways of
 * asking, files at /var/run/nvidia-container-devices and CDI annotations, are for its own daemons:
 * neither is read.)
 *
 * A variable's value is the user's (-e, --env-file, configuration), else the caller's, else the
 * image's: as Enroot does, and unlike other variables, where an image's value is above the
 * caller's.
 */
#ifndef MLR_GPU_WISH_H
#define MLR_GPU_WISH_H

#include "gpu/gpu.h"
#include "gpu/machine.h"

enum gpu_wish_kind {
	GPU_WISH_NOTHING, /* no GPU container */
	GPU_WISH_DRIVER,  /* NVIDIA_VISIBLE_DEVICES=none: the driver's files and no device */
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
	/* GPU_WISH_LIST: "0", "GPU-…", "0000:3b:00.0", "0:1", "MIG-…", each once. */
	struct strv devices;
	/* Names among them for cdi_plan(); those of nvidia.com/gpu are in devices, without that
	 * word. */
	struct strv cdi;
	int must;  /* --gpu or -e named it: what cannot be had is an error and no remark */
	char *who; /* "--gpu=0,1", "the image's NVIDIA_VISIBLE_DEVICES=all", for messages */
	/*
	 * enum gpu_capability, those that were named and none that they bring along: display needs
	 * graphics' libraries and video compute's (and with these /dev/nvidia-uvm and the MPS
	 * directory). A file of the driver's says by its caps which capabilities bring it, any of
	 * them: compute's libraries GPU_COMPUTE | GPU_VIDEO, its programs GPU_COMPUTE.
	 */
	unsigned caps;
	char *caps_who;
	struct strv imex; /* channel numbers */
	unsigned extras;  /* enum gpu_extra; only with devices */
	/* "NVIDIA_REQUIRE_CUDA=cuda>=12.4 …", sorted; empty when disabled. */
	struct strv requirements;
	struct strv remarks; /* sentences: what was not obeyed and why, who won over whom */
};

#define GPU_WISH_INIT                    \
	{                                \
		.kind = GPU_WISH_NOTHING \
	}

/* Capabilities with which the libraries of compute and graphics come, and nodes that are theirs. */
#define GPU_CAPS_COMPUTE  (GPU_COMPUTE | GPU_VIDEO)
#define GPU_CAPS_GRAPHICS (GPU_GRAPHICS | GPU_DISPLAY)

void gpu_wish_done(struct gpu_wish *w);

/*
 *   p  has the environment; whether there is a job is asked of q->caller
 *
 * --gpu: "auto" leaves it to NVIDIA_VISIBLE_DEVICES; "none" is no GPU container at all; "all"; a
 * list. Its word is above the variable, also where that says "void"; a word that is a setting
 * (MLRUN_GPU, mlrun.conf) is below the user's -e.
 *
 * NVIDIA_VISIBLE_DEVICES: empty, or "void" among others: nothing; "none": the driver's files; "all"
 * among others: all; else a list, whose empty items do not count.
 *
 * An image without it: with CUDA_VERSION and no NVIDIA_REQUIRE_CUDA it is one of the first kind and
 * wants all; else in a job all of the job's, outside of one all when it carries CUDA (CUDA_VERSION,
 * /usr/local/cuda) or ROCm (ROCM_VERSION, /opt/rocm), else nothing.
 *
 * Returns 0; -EINVAL naming the variable and what it may be; -ENOTSUP for what the user asked for
 * and only root can have (NVIDIA_MIG_CONFIG_DEVICES, NVIDIA_MIG_MONITOR_DEVICES).
 */
int gpu_wish_read(const struct gpu_request *q, const struct plan *p, struct gpu_wish *ret,
	struct mlr_error *err);

/* The word of --gpu or of a setting, where it is that which decides; NULL: NVIDIA_VISIBLE_DEVICES
 * does. */
const char *gpu_wish_word(const struct gpu_request *q, const struct plan *p);

/* "compute,utility" and so on, to free(). */
char *gpu_capabilities_print(unsigned caps);

#endif
