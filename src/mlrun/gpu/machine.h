/*
 * Describes what a machine has for GPU programs: its driver, the driver's files, its GPUs. It is
 * read from the machine, or from a profile recorded on it (profile.h).
 *
 * Paths are the machine's own: absolute, without gpu_root().
 */
#pragma once

#include "base/base.h"
#include "gpu/version.h"

/* NVIDIA_DRIVER_CAPABILITIES, as bits. */
enum gpu_capability {
	GPU_COMPUTE = 1 << 0,
	GPU_COMPAT32 = 1 << 1,
	GPU_GRAPHICS = 1 << 2,
	GPU_UTILITY = 1 << 3,
	GPU_VIDEO = 1 << 4,
	GPU_DISPLAY = 1 << 5,
	GPU_NGX = 1 << 6,
	GPU_CAPABILITIES_ALL = (1 << 7) - 1,
};

enum gpu_driver {
	GPU_DRIVER_NONE,
	GPU_DRIVER_NVIDIA,
	GPU_DRIVER_WSL,   /* /dev/dxg and Windows' driver under /usr/lib/wsl */
	GPU_DRIVER_TEGRA, /* unsupported: its driver has other libraries in other places */
};

enum gpu_vendor { GPU_NVIDIA, GPU_AMD, GPU_VENDORS }; /* each has a row in vendor.h */

/* Their names in JSON, indexed by value; NULL for GPU_DRIVER_NONE. */
extern const char *const gpu_driver_names[GPU_DRIVER_TEGRA + 1];

enum gpu_file_kind {
	GPU_LIBRARY,
	GPU_PROGRAM,
	GPU_FIRMWARE, /* gsp*.bin */
	GPU_SOCKET,   /* a socket, or a directory of them */
	GPU_DATA,     /* configuration files of graphics and OpenCL */
};

/* A file of the driver; of AMD's, a file of ROCm, which most images contain themselves. */
struct gpu_file {
	enum gpu_file_kind kind;
	enum gpu_vendor vendor;
	unsigned caps; /* enum gpu_capability: any of them brings it; 0: always */
	char *path;    /* a regular file or socket, no link */
	char *target; /* its path in the container; NULL for a library, which keeps its base name */
	/* Of libraries: */
	int bits;                 /* 64 or 32 */
	char *soname;             /* DT_SONAME; NULL: none */
	char *dev_link;           /* a link to create, which programs open: "libcuda.so"; NULL */
	struct gpu_version glibc; /* newest GLIBC_x.y needed; zero: none */
};

/* A character device. */
struct gpu_node {
	char *path;
	unsigned major, minor;
	uid_t uid;
	gid_t gid;
	mode_t mode;
	int error; /* why the caller cannot open it; 0: it can. EACCES: the mode; EPERM: the job's
		      cgroup; ENXIO: no driver or another one; ENOENT: missing */
};

/* A part of a GPU, "MIG device" (NVIDIA Multi-Instance GPU User Guide). */
struct gpu_mig {
	unsigned gi, ci;             /* GPU instance, compute instance */
	char *uuid;                  /* "MIG-…", known only to NVML; NULL */
	char *gi_access, *ci_access; /* /proc/driver/nvidia/capabilities/gpu0/mig/gi1/access … */
	struct gpu_node gi_node,
		ci_node; /* /dev/nvidia-caps/nvidia-cap…; path NULL: unsupported by the kernel */
};

struct gpu {
	enum gpu_vendor vendor;
	int index;      /* rank among the vendor's GPUs that the caller can open, as nvidia-smi and
			   ROCR_VISIBLE_DEVICES count; -1: cannot open it */
	char *bus_id;   /* "0000:3b:00.0", lower case, as in /sys/bus/pci; "": unknown, because
			   /proc/driver/nvidia/gpus is hidden */
	char *proc_dir; /* /proc/driver/nvidia/gpus/0000:3b:00.0; NULL: hidden, or AMD's */
	char *uuid;     /* "GPU-…", AMD's as in rocminfo; NULL: unknown */
	char *model;    /* "NVIDIA H200"; NULL: unknown */
	unsigned minor; /* of node */
	struct gpu_node node; /* /dev/nvidia<minor>; AMD: /dev/dri/renderD…; path is set even when
				 the node is missing */
	struct gpu_node *drm; /* /dev/dri/card… and renderD… */
	size_t n_drm;
	struct gpu_mig *mig;
	size_t n_mig;
	/* Known only to NVML or AMD's sysfs; 0 and NULL: unknown. */
	uint64_t memory;         /* bytes */
	char *brand;             /* "Tesla", "GeForce" … */
	struct gpu_version arch; /* compute capability, 9.0; AMD: 9.0.10 of gfx90a */
};

struct gpu_machine {
	char *processors; /* as in uname(2), "x86_64"; NULL: unknown */
	enum gpu_driver driver;
	char *refused;     /* GPU_DRIVER_TEGRA: why, and what to do */
	char *driver_root; /* "" or "/run/nvidia/driver": root of the driver's files */
	char *driver_text; /* "535.104.05" */
	struct gpu_version driver_version; /* zero: unknown */
	struct gpu_version cuda;           /* newest CUDA that the driver supports; zero: unknown */
	int is_open;                       /* open kernel module */
	struct gpu_file *files;
	size_t n_files;
	struct strv missing; /* libraries and programs of table.h that were not found */
	struct gpu *gpus; /* NVIDIA's by bus id, then AMD's in the order of their kernel driver */
	size_t n_gpus;
	struct gpu_node *nodes; /* /dev/nvidiactl, -uvm, -uvm-tools, -modeset, dxg, kfd … */
	size_t n_nodes;
	struct gpu_node
		*fabric; /* nodes of NVIDIA_GDS, _MOFED, _NVSWITCH, _GDRCOPY, and IMEX channels */
	size_t n_fabric;
	int has_caps;         /* the kernel has nvidia-caps devices */
	struct strv warnings; /* sentences: a problem and what to do */
};

#define GPU_MACHINE_INIT                  \
	{                                 \
		.driver = GPU_DRIVER_NONE \
	}

void gpu_machine_done(struct gpu_machine *m);

/*
 * Read a machine.
 *
 *   root  gpu_root()
 *   ret   zeroed; owns its strings and lists
 *
 * Returns 0, also without a GPU; -errno when the files cannot be read at all.
 */
int gpu_machine_read(const char *root, struct gpu_machine *ret, struct mlr_error *err);

/* Like gpu_machine_read(), but reads only those of the driver's files that caps bring, to save
 * time. */
int gpu_machine_read_for(
	const char *root, unsigned caps, struct gpu_machine *ret, struct mlr_error *err);

/*
 * Like gpu_machine_read(), but without the driver's files, which only containers need.
 */
int gpu_machine_read_gpus(const char *root, struct gpu_machine *ret, struct mlr_error *err);

/* Find a node by its path among nodes, fabric and the GPUs; NULL. */
const struct gpu_node *gpu_machine_node(const struct gpu_machine *m, const char *path);

/* Set each GPU's index. Call it when all GPUs are known. */
void gpu_machine_count(struct gpu_machine *m);

/* Append a zeroed element. The pointer is valid until the next is added. */
struct gpu_file *gpu_machine_add_file(struct gpu_machine *m);
struct gpu *gpu_machine_add_gpu(struct gpu_machine *m);
struct gpu_node *gpu_node_add(struct gpu_node **v, size_t *n);
