/*
 * What a machine has for GPU programs: its driver, the driver's files, its GPUs. Data, which can be
 * read from a machine or from a profile that was recorded on one (profile.h).
 *
 * Paths are those of the machine itself, absolute and without gpu_root().
 */
#ifndef MLR_GPU_MACHINE_H
#define MLR_GPU_MACHINE_H

#include "base/error.h"
#include "base/strv.h"
#include "gpu/version.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
	GPU_DRIVER_TEGRA, /* refused: its libraries lie elsewhere and are not NVIDIA's desktop
			     driver */
};

enum gpu_vendor { GPU_NVIDIA, GPU_AMD, GPU_VENDORS }; /* vendor.h has a row for each */

/* Their words in JSON, each at its value; NULL for GPU_DRIVER_NONE. */
extern const char *const gpu_driver_names[GPU_DRIVER_TEGRA + 1];

enum gpu_file_kind {
	GPU_LIBRARY,
	GPU_PROGRAM,
	GPU_FIRMWARE, /* gsp*.bin */
	GPU_SOCKET,   /* a socket, or a directory of them */
	GPU_DATA,     /* configuration files of graphics and OpenCL */
};

/* A file of the driver's; of AMD's, one of ROCm, which images mostly bring themselves. */
struct gpu_file {
	enum gpu_file_kind kind;
	enum gpu_vendor vendor;
	unsigned caps; /* enum gpu_capability that bring it, any of them; 0: each does */
	char *path;    /* a regular file or socket, no link */
	char *target;  /* where it goes inside, absolute; NULL for a library, which goes by its base
			* name into the directory of libraries */
	/* Of libraries: */
	int bits;       /* 64 or 32 */
	char *soname;   /* DT_SONAME; NULL: none */
	char *dev_link; /* "libcuda.so", a link to it that programs open and that is to be made;
			   NULL */
	struct gpu_version glibc; /* the newest GLIBC_x.y that it needs; zero: none */
};

/* A character device. */
struct gpu_node {
	char *path;
	unsigned major, minor;
	uid_t uid;
	gid_t gid;
	mode_t mode;
	int error; /* why the caller cannot open it: 0 he can; EACCES by its mode; EPERM by the
		    * job's cgroup; ENXIO no driver is behind it, or another; ENOENT it is not there
		    */
};

/* A part of a GPU, "MIG device" (NVIDIA Multi-Instance GPU User Guide). */
struct gpu_mig {
	unsigned gi, ci;             /* GPU instance, compute instance */
	char *uuid;                  /* "MIG-…", which only NVML tells; NULL */
	char *gi_access, *ci_access; /* /proc/driver/nvidia/capabilities/gpu0/mig/gi1/access … */
	struct gpu_node gi_node,
		ci_node; /* /dev/nvidia-caps/nvidia-cap…; path NULL: the kernel has none */
};

struct gpu {
	enum gpu_vendor vendor;
	int index;    /* place among the vendor's GPUs that the caller can open, as nvidia-smi and
		       * ROCR_VISIBLE_DEVICES count; -1: he cannot */
	char *bus_id; /* "0000:3b:00.0", small letters, as /sys/bus/pci names it; "": unknown, where
		       * /proc/driver/nvidia/gpus is hidden */
	char *proc_dir; /* /proc/driver/nvidia/gpus/0000:3b:00.0; NULL: there is none, and for AMD's
			 */
	char *uuid;     /* "GPU-…", of AMD's too, as rocminfo has it; NULL: unknown */
	char *model;    /* "NVIDIA H200"; NULL: unknown */
	unsigned minor; /* of node */
	struct gpu_node node; /* /dev/nvidia<minor>; AMD: its /dev/dri/renderD…; it has a path
			       * also when it is not there */
	struct gpu_node *drm; /* n_drm of /dev/dri/card… and renderD… */
	size_t n_drm;
	struct gpu_mig *mig;
	size_t n_mig;
	/* What only NVML (or AMD's sysfs) tells; 0 and NULL: unknown. */
	uint64_t memory;         /* bytes */
	char *brand;             /* "Tesla", "GeForce" … */
	struct gpu_version arch; /* compute capability, 9.0; AMD: 9.0.10 of gfx90a */
};

struct gpu_machine {
	char *processors; /* what uname(2) calls them, "x86_64"; NULL: unknown */
	enum gpu_driver driver;
	char *refused;     /* GPU_DRIVER_TEGRA: why, and the way out */
	char *driver_root; /* the libraries lie below it: "" or "/run/nvidia/driver" */
	char *driver_text; /* "535.104.05" */
	struct gpu_version driver_version; /* zero: unknown */
	struct gpu_version cuda; /* the newest CUDA that the driver serves; zero: unknown */
	int is_open;             /* the kernel module is the open one */
	struct gpu_file *files;
	size_t n_files;
	struct strv missing; /* names of libraries and programs of the tables that are not here */
	struct gpu *gpus; /* NVIDIA's by bus id, then AMD's in the order of their kernel driver */
	size_t n_gpus;
	struct gpu_node *nodes; /* /dev/nvidiactl, -uvm, -uvm-tools, -modeset, dxg, kfd … */
	size_t n_nodes;
	struct gpu_node *fabric; /* of NVIDIA_GDS, _MOFED, _NVSWITCH, _GDRCOPY, and IMEX channels */
	size_t n_fabric;
	int has_caps;         /* the kernel has the character devices nvidia-caps */
	struct strv warnings; /* sentences: what is odd here, and what to do */
};

#define GPU_MACHINE_INIT                  \
	{                                 \
		.driver = GPU_DRIVER_NONE \
	}

void gpu_machine_done(struct gpu_machine *m);

/*
 * Look at a machine.
 *
 *   root  gpu_root()
 *   ret   zeroed; its strings and lists are its own
 *
 * Returns 0, also where there is no GPU; -errno for a machine whose files cannot be read at all.
 */
int gpu_machine_read(const char *root, struct gpu_machine *ret, struct mlr_error *err);

/* The same, but of the driver's files those alone that one of these capabilities brings: for a
 * start, which cannot wait for libraries that it does not take. */
int gpu_machine_read_for(
	const char *root, unsigned caps, struct gpu_machine *ret, struct mlr_error *err);

/*
 * The same, but without the driver's files, which only containers need: for `mlrun gpu list` and
 * the doctor.
 */
int gpu_machine_read_gpus(const char *root, struct gpu_machine *ret, struct mlr_error *err);

/* A node by its path, of nodes, fabric and the GPUs; NULL. */
const struct gpu_node *gpu_machine_node(const struct gpu_machine *m, const char *path);

/* Set each GPU's index, after all are found. */
void gpu_machine_count(struct gpu_machine *m);

/* For those that fill one in: a new element, zeroed, good until the next is added. */
struct gpu_file *gpu_machine_add_file(struct gpu_machine *m);
struct gpu *gpu_machine_add_gpu(struct gpu_machine *m);
struct gpu_node *gpu_node_add(struct gpu_node **v, size_t *n);

#endif
