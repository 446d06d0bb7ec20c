/*
 * What belongs to NVIDIA's driver and which capability brings it, as data (libnvidia-container,
 * src/nvc_info.c; nvidia-container-toolkit, pkg/nvcdi and internal/discover/graphics.go). Lists end
 * with a row without name.
 */
#ifndef MLR_GPU_TABLE_H
#define MLR_GPU_TABLE_H

#include "gpu/machine.h"

enum gpu_library_rule {
	GPU_BY_VERSION, /* name is a stem: "libcuda.so" is libcuda.so.535.104.05 */
	GPU_BY_NAME,    /* name is whole: it has a version of its own, "libnvidia-egl-gbm.so.1", or
			   none */
};

struct gpu_library_row {
	const char *name;
	unsigned caps; /* enum gpu_capability */
	enum gpu_library_rule rule;
	/* A directory below that of the others, which is looked into first: "tls" of drivers that
	 * have a second libnvidia-tls for kernels before 2.4; NULL */
	const char *below;
};

struct gpu_program_row {
	const char *name;
	unsigned caps;
};

/* Configuration, below /etc and the directories of XDG_DATA_DIRS. */
struct gpu_data_row {
	const char *name; /* "glvnd/egl_vendor.d/10_nvidia.json" */
	unsigned caps;
	const char *to; /* the directory inside: "/usr/share" */
};

struct gpu_socket_row {
	const char *name; /* below /run, or absolute */
	unsigned caps;
};

extern const struct gpu_library_row gpu_libraries[];
extern const struct gpu_program_row gpu_programs[];
extern const struct gpu_data_row gpu_data[];
extern const struct gpu_socket_row gpu_sockets[];

/* Those of Windows' driver that WSL has in /usr/lib/wsl/lib (pkg/nvcdi/driver-wsl.go); names are
 * whole. */
extern const struct gpu_library_row gpu_wsl_libraries[];

/* A link to a library that programs open and that is to be made on any machine: of "libcuda.so" or
 * of "libcuda.so.1", "libcuda.so"; NULL. */
const char *gpu_table_link(const char *name);

#endif
