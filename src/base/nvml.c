#include "base/nvml.h"

#include "base/base.h"

#include <dlfcn.h>

struct symbol {
	size_t at;
	const char *names[3];
};

#define SYMBOL(field, ...)                    \
	{                                     \
		offsetof(struct nvml, field), \
		{                             \
			__VA_ARGS__           \
		}                             \
	}

/* The newest name first: older ones count or fill in less. */
static const struct symbol symbols[] = {
	SYMBOL(init, "nvmlInit_v2", "nvmlInit"),
	SYMBOL(shutdown, "nvmlShutdown"),
	SYMBOL(error_string, "nvmlErrorString"),
	SYMBOL(driver_version, "nvmlSystemGetDriverVersion"),
	SYMBOL(cuda_version, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"),
	SYMBOL(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"),
	SYMBOL(handle, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"),
	SYMBOL(pci, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"), /* which has no bus_id */
	SYMBOL(uuid, "nvmlDeviceGetUUID"),
	SYMBOL(name, "nvmlDeviceGetName"),
	SYMBOL(brand, "nvmlDeviceGetBrand"),
	SYMBOL(capability, "nvmlDeviceGetCudaComputeCapability"),
	SYMBOL(memory, "nvmlDeviceGetMemoryInfo"),
	SYMBOL(memory_v2, "nvmlDeviceGetMemoryInfo_v2"),
	SYMBOL(mig_mode, "nvmlDeviceGetMigMode"),
	SYMBOL(mig_count, "nvmlDeviceGetMaxMigDeviceCount"),
	SYMBOL(mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex"),
	SYMBOL(gpu_instance, "nvmlDeviceGetGpuInstanceId"),
	SYMBOL(compute_instance, "nvmlDeviceGetComputeInstanceId"),
	SYMBOL(utilization, "nvmlDeviceGetUtilizationRates"),
	SYMBOL(power, "nvmlDeviceGetPowerUsage"),
	SYMBOL(power_limit, "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"),
	SYMBOL(temperature, "nvmlDeviceGetTemperature"),
	SYMBOL(clock, "nvmlDeviceGetClockInfo"),
	SYMBOL(compute, "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"),
	SYMBOL(graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3",
		"nvmlDeviceGetGraphicsRunningProcesses_v2",
		"nvmlDeviceGetGraphicsRunningProcesses"),
	SYMBOL(mps, "nvmlDeviceGetMPSComputeRunningProcesses_v3",
		"nvmlDeviceGetMPSComputeRunningProcesses_v2",
		"nvmlDeviceGetMPSComputeRunningProcesses"),
};

/* By the numbers of nvmlBrandType_t (13.0). */
static const char *const brands[] = { "Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce",
	"Titan", "vApps", "VPC", "vCS", "vWS", "CloudGaming", "QuadroRTX", "NvidiaRTX", "Nvidia",
	"GeForceRTX", "TitanRTX" };

const char *nvml_brand_name(int brand)
{
	return brand >= 0 && (size_t)brand < ARRAY_LEN(brands) ? brands[brand] : "Unknown";
}

int nvml_load(void *library, struct nvml *ret)
{
	*ret = (struct nvml){ NULL };
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		void *f = NULL;

		for (size_t k = 0; !f && k < ARRAY_LEN(symbols[i].names) && symbols[i].names[k];
			k++)
			f = dlsym(library, symbols[i].names[k]);
		memcpy((char *)ret + symbols[i].at, &f, sizeof(f));
	}
	return ret->init && ret->count && ret->handle && ret->pci ? 0 : -1;
}

/*
 * Bytes from one process to the next, of n in an array that was full of a mark: the last field of
 * each layout ends with a zero or 0xff, so what comes after the last byte that is no mark was not
 * written.
 */
static size_t stride(const unsigned char *bytes, size_t size, size_t n, unsigned char mark)
{
	size_t end = size;

	while (end > 0 && bytes[end - 1] == mark)
		end--;
	if (end <= n * 16)
		return 16;
	return end <= n * 24 ? 24 : NVML_PROCESS_MAX;
}

size_t nvml_processes(nvml_processes_fn *f, nvml_device gpu, struct nvml_process **ret)
{
	auto_free unsigned char *bytes = NULL;
	const unsigned char mark = 0xa5;
	unsigned room = 64, n;
	size_t step;
	int r = NVML_INSUFFICIENT_SIZE;

	*ret = NULL;
	/* Between two calls more may have come; thrice is enough. */
	for (int i = 0; f && i < 3 && r == NVML_INSUFFICIENT_SIZE && room <= 1u << 16; i++) {
		set_ptr(&bytes, xcalloc(room, NVML_PROCESS_MAX));
		memset(bytes, mark, (size_t)room * NVML_PROCESS_MAX);
		n = room;
		r = f(gpu, &n, bytes);
		if (r == NVML_INSUFFICIENT_SIZE)
			room = (n > room ? n : room) + 16;
	}
	if (!f || r != NVML_SUCCESS || n == 0 || n > room)
		return 0;
	step = stride(bytes, (size_t)room * NVML_PROCESS_MAX, n, mark);
	*ret = xcalloc(n, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		memcpy(&(*ret)[i], bytes + i * step, sizeof(**ret));
	return n;
}
