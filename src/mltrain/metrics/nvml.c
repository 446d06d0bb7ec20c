#include "metrics/usage.h"

#include "base/nvml.h"
#include "tensor/driver.h"

#define LIBRARY "libnvidia-ml.so.1"

struct nvml_watch {
	struct nvml library;
	int n;
	struct {
		unsigned index;
		nvml_device handle;
	} gpus[USAGE_GPUS_MAX];
};

int nvml_is_listed(const char *list, unsigned index, const char *uuid)
{
	auto_free char *words = list ? xstrdup(list) : NULL;
	char *save;

	if (!list)
		return 1;
	for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *end;
		unsigned long v = strtoul(w, &end, 10);

		/* CUDA accepts the beginning of a UUID. */
		if ((end != w && !*end && v == index) ||
			(strncmp(w, "GPU-", 4) == 0 && strncmp(uuid, w, strlen(w)) == 0))
			return 1;
	}
	return 0;
}

static void find_gpus(struct nvml_watch *w)
{
	const struct nvml *l = &w->library;
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	unsigned count = 0;

	if (l->count(&count) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < count && w->n < USAGE_GPUS_MAX; i++) {
		char uuid[96] = "";
		nvml_device d;

		if (l->handle(i, &d) != NVML_SUCCESS)
			continue; /* the job may not use it */
		if (NVML_CALL(l, uuid, d, uuid, sizeof(uuid)) != NVML_SUCCESS)
			uuid[0] = '\0';
		if (!nvml_is_listed(list, i, uuid))
			continue;
		w->gpus[w->n].index = i;
		w->gpus[w->n++].handle = d;
	}
}

/* Returns 0, or -1 if the library cannot be used. */
static int start(void *library, struct nvml *l)
{
	int r = nvml_load(library, l);

	if (r < 0)
		mlr_debug("GPUs' load is not sampled: " LIBRARY " lacks functions");
	else if ((r = l->init()) != NVML_SUCCESS)
		mlr_debug("GPUs' load is not sampled: nvmlInit() gives error %d", r);
	return r == NVML_SUCCESS ? 0 : -1;
}

struct nvml_watch *nvml_open(void)
{
	struct mlr_error err = MLR_ERROR_INIT;
	void *library = driver_library_open("", LIBRARY, &err);
	struct nvml_watch *w;

	if (!library) {
		mlr_wrap(&err, "GPUs' load is not sampled");
		mlr_log_failure(MLR_DEBUG, &err, "");
		return NULL;
	}
	w = xcalloc(1, sizeof(*w));
	if (start(library, &w->library) < 0) {
		free(w);
		return NULL;
	}
	find_gpus(w);
	if (!w->n)
		nvml_close(&w);
	return w;
}

int nvml_read(const struct nvml_watch *w, struct usage_gpu *ret, int max)
{
	int count = w ? w->n < max ? w->n : max : 0;

	for (int i = 0; i < count; i++) {
		const struct nvml *l = &w->library;
		nvml_device d = w->gpus[i].handle;
		struct nvml_utilization u;
		struct nvml_memory m;
		unsigned power, temperature;

		ret[i] = (struct usage_gpu){ .index = (int)w->gpus[i].index,
			.percent = -1,
			.power_watts = -1,
			.temperature = -1 };
		if (NVML_CALL(l, name, d, ret[i].name, sizeof(ret[i].name)) != NVML_SUCCESS)
			ret[i].name[0] = '\0';
		if (NVML_CALL(l, utilization, d, &u) == NVML_SUCCESS)
			ret[i].percent = u.gpu;
		if (NVML_CALL(l, memory, d, &m) == NVML_SUCCESS) {
			ret[i].memory = m.used;
			ret[i].memory_total = m.total;
		}
		if (NVML_CALL(l, power, d, &power) == NVML_SUCCESS)
			ret[i].power_watts = 1e-3 * power;
		if (NVML_CALL(l, temperature, d, NVML_TEMPERATURE_GPU, &temperature) ==
			NVML_SUCCESS)
			ret[i].temperature = temperature;
	}
	return count;
}

void nvml_close(struct nvml_watch **watch)
{
	struct nvml_watch *w = take_ptr(watch);

	if (!w)
		return;
	NVML_CALL(&w->library, shutdown);
	free(w);
}
