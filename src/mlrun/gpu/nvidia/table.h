/*
 * Lists the files of NVIDIA's driver and the capabilities that bring them (libnvidia-container,
 * src/nvc_info.c; nvidia-container-toolkit, pkg/nvcdi and internal/discover/graphics.go). A row
 * without a name ends a list.
 */
#pragma once

#include "gpu/machine.h"

enum gpu_library_rule {
	GPU_BY_VERSION, /* name is a stem: "libcuda.so" stands for libcuda.so.535.104.05 */
	GPU_BY_NAME,    /* name is complete, with a version of its own or none:
			   "libnvidia-egl-gbm.so.1" */
};

struct gpu_library_row {
	const char *name;
	unsigned caps; /* enum gpu_capability */
	enum gpu_library_rule rule;
	/* A subdirectory to try first: "tls" in drivers that have a second libnvidia-tls for
	 * kernels before 2.4; NULL. */
	const char *below;
};

struct gpu_program_row {
	const char *name;
	unsigned caps;
};

/* Configuration below /etc and the directories of XDG_DATA_DIRS. */
struct gpu_data_row {
	const char *name; /* "glvnd/egl_vendor.d/10_nvidia.json" */
	unsigned caps;
	const char *to; /* the container's directory: "/usr/share" */
};

struct gpu_socket_row {
	const char *name; /* below /run, or absolute */
	unsigned caps;
};

extern const struct gpu_library_row gpu_libraries[];
extern const struct gpu_program_row gpu_programs[];
extern const struct gpu_data_row gpu_data[];
extern const struct gpu_socket_row gpu_sockets[];

/* Libraries of Windows' driver in WSL's /usr/lib/wsl/lib (pkg/nvcdi/driver-wsl.go); complete
 * names. */
extern const struct gpu_library_row gpu_wsl_libraries[];

/* The link to create for a library because programs open it: "libcuda.so" for "libcuda.so" and
 * "libcuda.so.1"; NULL. */
const char *gpu_table_link(const char *name);
