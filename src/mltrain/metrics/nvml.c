#include "metrics/nvml.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "tensor/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

typedef struct nvml_device *device; /* nvmlDevice_t */

/* nvmlUtilization_t, percent */
struct utilization {
	unsigned gpu, memory;
};

/* nvmlMemory_t, bytes */
struct memory {
	unsigned long long total, free, used;
};

/* The functions, named as in the library; nvmlReturn_t is 0 for success. */
struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *);
	int (*handle)(unsigned, device *);
	int (*uuid)(device, char *, unsigned);
	int (*name)(device, char *, unsigned);
	int (*utilization)(device, struct utilization *);
	int (*memory)(device, struct memory *);
	int (*power)(device, unsigned *milliwatts);
	int (*temperature)(device, int sensor, unsigned *);
	int n;
	struct {
		unsigned index;
		device handle;
	} gpus[LOAD_GPUS_MAX];
};

static int load_functions(struct nvml *n, void *library)
{
	const struct {
		const char *name;
		void *field;
	} functions[] = {
		{ "nvmlInit_v2", &n->init },
		{ "nvmlShutdown", &n->shutdown },
		{ "nvmlDeviceGetCount_v2", &n->count },
		{ "nvmlDeviceGetHandleByIndex_v2", &n->handle },
		{ "nvmlDeviceGetUUID", &n->uuid },
		{ "nvmlDeviceGetName", &n->name },
		{ "nvmlDeviceGetUtilizationRates", &n->utilization },
		{ "nvmlDeviceGetMemoryInfo", &n->memory },
		{ "nvmlDeviceGetPowerUsage", &n->power },
		{ "nvmlDeviceGetTemperature", &n->temperature },
	};

	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		void *f = dlsym(library, functions[i].name);

		if (!f) {
			mlr_debug("%s has no %s: GPUs' load is not sampled", LIBRARY,
				functions[i].name);
			return -1;
		}
		memcpy(functions[i].field, &f, sizeof(f));
	}
	return 0;
}

int nvml_is_listed(const char *list, unsigned index, const char *uuid)
{
	auto_free char *words = list ? xstrdup(list) : NULL;
	char *save;

	if (!list)
		return 1;
	for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *end;
		unsigned long v = strtoul(w, &end, 10);

		/* CUDA takes the beginning of a UUID for it. */
		if ((end != w && !*end && v == index) ||
			(strncmp(w, "GPU-", 4) == 0 && strncmp(uuid, w, strlen(w)) == 0))
			return 1;
	}
	return 0;
}

static void find_gpus(struct nvml *n)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	unsigned count = 0;

	if (n->count(&count) != 0)
		return;
	for (unsigned i = 0; i < count && n->n < LOAD_GPUS_MAX; i++) {
		char uuid[96] = "";
		device d;

		if (n->handle(i, &d) != 0)
			continue; /* one that the job may not use */
		if (n->uuid(d, uuid, sizeof(uuid)) != 0)
			uuid[0] = '\0';
		if (!nvml_is_listed(list, i, uuid))
			continue;
		n->gpus[n->n].index = i;
		n->gpus[n->n++].handle = d;
	}
}

struct nvml *nvml_open(void)
{
	struct mlr_error err = MLR_ERROR_INIT;
	void *library = driver_library_open("", LIBRARY, &err);
	struct nvml *n;
	int r;

	if (!library) {
		mlr_wrap(&err, "GPUs' load is not sampled");
		mlr_log_failure(MLR_DEBUG, &err, "");
		return NULL;
	}
	n = xcalloc(1, sizeof(*n));
	if (load_functions(n, library) < 0) {
		free(n);
		return NULL;
	}
	r = n->init();
	if (r != 0) {
		mlr_debug("GPUs' load is not sampled: nvmlInit() gives error %d", r);
		free(n);
		return NULL;
	}
	find_gpus(n);
	if (!n->n)
		nvml_close(&n);
	return n;
}

int nvml_read(const struct nvml *n, struct load_gpu *ret, int max)
{
	int count = n ? n->n < max ? n->n : max : 0;

	for (int i = 0; i < count; i++) {
		device d = n->gpus[i].handle;
		struct utilization u;
		struct memory m;
		unsigned power, temperature;

		ret[i] = (struct load_gpu){ .index = (int)n->gpus[i].index,
			.percent = -1,
			.power_watts = -1,
			.temperature = -1 };
		if (n->name(d, ret[i].name, sizeof(ret[i].name)) != 0)
			ret[i].name[0] = '\0';
		if (n->utilization(d, &u) == 0)
			ret[i].percent = u.gpu;
		if (n->memory(d, &m) == 0) {
			ret[i].memory = m.used;
			ret[i].memory_total = m.total;
		}
		if (n->power(d, &power) == 0)
			ret[i].power_watts = 1e-3 * power;
		if (n->temperature(d, 0, &temperature) == 0)
			ret[i].temperature = temperature;
	}
	return count;
}

void nvml_close(struct nvml **nvml)
{
	struct nvml *n = take_ptr(nvml);

	if (!n)
		return;
	n->shutdown();
	free(n);
}
