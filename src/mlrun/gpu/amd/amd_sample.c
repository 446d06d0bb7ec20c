#include "gpu/amd/amd.h"

#define KFD "/sys/class/kfd/kfd"

/* The number in a file; -1: none. */
static int64_t number(const struct gpu_dir *d, const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	auto_free char *text = gpu_dir_read(d, path);
	int64_t v;

	return text && sscanf(text, "%" SCNd64, &v) == 1 && v >= 0 ? v : -1;
}

/* The same in another unit. */
static double scaled(int64_t v, double unit)
{
	return v < 0 ? -1 : (double)v / unit;
}

static void read_hwmon(const struct gpu_dir *d, const char *device, struct gpu_sample *s)
{
	auto_free char *dir = xasprintf("%s/hwmon", device);
	auto_strv struct strv names = STRV_INIT;
	int64_t power;

	gpu_dir_list(d, dir, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *hwmon = xasprintf("%s/%s", dir, names.v[i]);

		power = number(d, hwmon, "power1_average");
		s->power = scaled(power < 0 ? number(d, hwmon, "power1_input") : power, 1e6);
		s->power_limit = scaled(number(d, hwmon, "power1_cap"), 1e6);
		s->temperature = (int)scaled(number(d, hwmon, "temp1_input"), 1e3);
		s->clock = (int)scaled(number(d, hwmon, "freq1_input"), 1e6);
	}
}

/* amdkfd's id of a GPU; 0: none. */
static int64_t kfd_id(const struct gpu_dir *d, const char *bus_id)
{
	auto_strv struct strv nodes = STRV_INIT;
	unsigned domain, bus, device, function;

	if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return 0;
	gpu_dir_list(d, KFD "/topology/nodes", &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		auto_free char *dir = xasprintf(KFD "/topology/nodes/%s", nodes.v[i]);
		auto_free char *path = xasprintf("%s/properties", dir);
		auto_free char *text = gpu_dir_read(d, path);
		const char *place = text ? strstr(text, "location_id ") : NULL;
		const char *segment = text ? strstr(text, "domain ") : NULL;

		if (place &&
			strtoul(place + strlen("location_id "), NULL, 10) ==
				(bus << 8 | device << 3 | function) &&
			(!segment || strtoul(segment + strlen("domain "), NULL, 10) == domain))
			return number(d, dir, "gpu_id");
	}
	return 0;
}

static void read_processes(const struct gpu_dir *d, const char *bus_id, struct gpu_sample *s)
{
	auto_strv struct strv pids = STRV_INIT;
	int64_t id = kfd_id(d, bus_id);
	char name[40];

	if (id <= 0 || gpu_dir_list(d, KFD "/proc", &pids) < 0)
		return;
	snprintf(name, sizeof(name), "vram_%" PRId64, id);
	for (size_t i = 0; i < pids.n; i++) {
		auto_free char *dir = xasprintf(KFD "/proc/%s", pids.v[i]);
		int64_t memory = number(d, dir, name);
		long pid = strtol(pids.v[i], NULL, 10);

		if (memory < 0 || pid <= 0 || pid > INT_MAX)
			continue;
		*xadd(s->processes, s->n_processes) =
			(struct gpu_process){ .pid = (pid_t)pid, .memory = memory };
	}
}

static void read_gpu(const struct gpu_dir *d, const struct gpu *g, struct gpu_sample *ret)
{
	auto_free char *device = xasprintf("/sys/bus/pci/devices/%s", g->bus_id);

	*ret = (struct gpu_sample){ .busy = -1,
		.memory_busy = -1,
		.memory_used = -1,
		.memory_total = -1,
		.power = -1,
		.power_limit = -1,
		.temperature = -1,
		.clock = -1 };
	snprintf(ret->bus_id, sizeof(ret->bus_id), "%s", g->bus_id);
	ret->busy = (int)number(d, device, "gpu_busy_percent");
	ret->memory_busy = (int)number(d, device, "mem_busy_percent");
	ret->memory_used = number(d, device, "mem_info_vram_used");
	ret->memory_total = number(d, device, "mem_info_vram_total");
	read_hwmon(d, device, ret);
	read_processes(d, g->bus_id, ret);
}

int gpu_amd_sample(const struct gpu_dir *d, const struct gpu_machine *m, struct gpu_sample **ret)
{
	struct gpu_sample *v = xcalloc(m->n_gpus + 1, sizeof(*v));
	int n = 0;

	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].vendor == GPU_AMD && m->gpus[i].bus_id)
			read_gpu(d, &m->gpus[i], &v[n++]);
	*ret = v;
	return n;
}
