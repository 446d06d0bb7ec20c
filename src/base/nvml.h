/*
 * NVIDIA's management library as programs see it: the part of its ABI that mlrun-nvml and mltrain
 * use, declared here because nvml.h comes with the CUDA toolkit and not with the driver (NVML API
 * Reference; the names and layouts below are those of nvml.h 11.0 to 13.0, and of 10.1 where a
 * "_v1" is told).
 */
#pragma once

#include <stddef.h>

/* nvmlReturn_t; others are told by nvmlErrorString(). */
enum {
	NVML_SUCCESS = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_OPERATING_SYSTEM = 17,
	NVML_VERSION_MISMATCH = 18,
};

#define NVML_TEMPERATURE_GPU 0 /* nvmlTemperatureSensors_t */
#define NVML_CLOCK_SM        1 /* nvmlClockType_t */

/* nvmlPciInfo_t since nvmlDeviceGetPciInfo_v3 (9.2). */
struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device;
	unsigned device_id, subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");
_Static_assert(offsetof(struct nvml_pci, domain) == 16, "nvmlPciInfo_t.domain");

/* nvmlUtilization_t */
struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};
_Static_assert(sizeof(struct nvml_utilization) == 8, "nvmlUtilization_t");

/* nvmlMemory_t: used has what the driver keeps for itself. */
struct nvml_memory {
	unsigned long long total, free, used;
};
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");

/* nvmlMemory_v2_t (11.3): used is what programs use, as nvidia-smi shows it. */
struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
#define NVML_MEMORY_V2 \
	(sizeof(struct nvml_memory_v2) | 2u << 24) /* NVML_STRUCT_VERSION(Memory, 2) */

/*
 * The head that nvmlProcessInfo_v1_t (16 bytes), _v2_t (24) and the one of the first drivers of
 * branch 535 (32) have in common. Which one a function of the name …_v2 or …_v3 fills in depends on
 * the driver, not on the name: nvml.c finds it out.
 */
struct nvml_process {
	unsigned pid;
	unsigned long long memory; /* all bits set: not known */
};
_Static_assert(sizeof(struct nvml_process) == 16, "nvmlProcessInfo_v1_t");
#define NVML_PROCESS_MAX 32 /* bytes of the largest */

typedef struct nvml_device *nvml_device;
typedef int nvml_processes_fn(nvml_device, unsigned *count, void *processes);

/* A loaded library; a function that it has not is NULL. */
struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int);
	int (*driver_version)(char *, unsigned);
	int (*cuda_version)(int *);
	int (*count)(unsigned *);
	int (*handle)(unsigned index, nvml_device *);
	int (*pci)(nvml_device, struct nvml_pci *);
	int (*uuid)(nvml_device, char *, unsigned);
	int (*name)(nvml_device, char *, unsigned);
	int (*brand)(nvml_device, int *);
	int (*capability)(nvml_device, int *major, int *minor);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*memory_v2)(nvml_device, struct nvml_memory_v2 *);
	int (*mig_mode)(nvml_device, unsigned *current, unsigned *pending);
	int (*mig_count)(nvml_device, unsigned *);
	int (*mig_handle)(nvml_device, unsigned index, nvml_device *);
	int (*gpu_instance)(nvml_device, unsigned *);
	int (*compute_instance)(nvml_device, unsigned *);
	int (*utilization)(nvml_device, struct nvml_utilization *);
	int (*power)(nvml_device, unsigned *milliwatts);
	int (*power_limit)(nvml_device, unsigned *milliwatts);
	int (*temperature)(nvml_device, int sensor, unsigned *);
	int (*clock)(nvml_device, int type, unsigned *mhz);
	nvml_processes_fn *compute, *graphics, *mps;
};

/* Call a function, if it is there. */
#define NVML_CALL(n, function, ...) \
	((n)->function ? (n)->function(__VA_ARGS__) : NVML_FUNCTION_NOT_FOUND)

/* The functions of a library that dlopen(3) has loaded, which is not started yet. Returns 0, or -1
 * when it lacks some that every version has. */
int nvml_load(void *library, struct nvml *ret);

/*
 * The processes on a GPU by one of the functions: none where that is not told.
 *
 *   ret  gets an array to free()
 *
 * Returns their number.
 */
size_t nvml_processes(nvml_processes_fn *f, nvml_device gpu, struct nvml_process **ret);

/* "Tesla" of nvmlBrandType_t, spelled as NVIDIA_REQUIRE_… does. */
const char *nvml_brand_name(int brand);
