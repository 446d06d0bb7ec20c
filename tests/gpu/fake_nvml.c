/*
 * A libnvidia-ml.so.1 that answers what a text file beside it says, "fake-nvml": a line a fact, a
 * "gpu" begins the next one's. Read again at each sample, so that a test can have things change.
 *
 *   driver 535.104.05       cuda 12020        process_bytes 16|24|32
 *   init CODE               nvmlInit() fails so; "hang" and "crash" instead of a number
 *   gpu 0000:3b:00.0        uuid GPU-…        name NVIDIA H200          brand 2        capability 9
 * 0 memory TOTAL RESERVED USED                busy GPU MEMORY           power MW LIMIT_MW
 *   temperature 63          clock 1980        process PID BYTES         graphics PID BYTES
 *   mig GI CI UUID          handle CODE       error CODE (of all that is asked of this GPU)
 *
 * With OLD_DRIVER it has the functions of 2019 alone. Layouts are nvml.h's, declared once more:
 * those of base/nvml.h are what is tested.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS  16
#define ITEMS 128

struct process {
	unsigned pid;
	long long memory; /* -1: not told */
	int is_graphics;
};

struct mig {
	unsigned gi, ci;
	char uuid[96];
};

struct gpu {
	unsigned domain, bus, device;
	char uuid[96], name[96];
	int brand, major, minor;
	unsigned long long total, reserved, used;
	int busy, memory_busy, power, limit, temperature, clock; /* -1: not supported */
	int handle, error;
	struct process processes[ITEMS];
	unsigned n_processes;
	struct mig migs[8];
	unsigned n_migs;
};

static struct {
	char driver[96], init[16];
	int cuda;
	unsigned process_bytes;
	struct gpu gpus[GPUS];
	unsigned n;
} fake;

static void read_gpu_line(struct gpu *g, const char *line)
{
	struct process p = { .is_graphics = strncmp(line, "graphics", 8) == 0 };
	struct mig *m = &g->migs[g->n_migs];

	sscanf(line, "uuid %95s", g->uuid);
	sscanf(line, "name %95[^\n]", g->name);
	sscanf(line, "brand %d", &g->brand);
	sscanf(line, "capability %d %d", &g->major, &g->minor);
	sscanf(line, "memory %llu %llu %llu", &g->total, &g->reserved, &g->used);
	sscanf(line, "busy %d %d", &g->busy, &g->memory_busy);
	sscanf(line, "power %d %d", &g->power, &g->limit);
	sscanf(line, "temperature %d", &g->temperature);
	sscanf(line, "clock %d", &g->clock);
	sscanf(line, "handle %d", &g->handle);
	sscanf(line, "error %d", &g->error);
	if (g->n_processes < ITEMS &&
		(sscanf(line, "process %u %lld", &p.pid, &p.memory) == 2 ||
			sscanf(line, "graphics %u %lld", &p.pid, &p.memory) == 2))
		g->processes[g->n_processes++] = p;
	if (g->n_migs < 8 && sscanf(line, "mig %u %u %95s", &m->gi, &m->ci, m->uuid) == 3)
		g->n_migs++;
}

static void read_facts(void)
{
	char path[PATH_MAX], line[256];
	Dl_info self;
	FILE *f;

	memset(&fake, 0, sizeof(fake));
	fake.process_bytes = 24;
	dladdr((void *)read_facts, &self);
	snprintf(path, sizeof(path), "%s", self.dli_fname);
	*strrchr(path, '/') = '\0';
	strcat(path, "/fake-nvml");
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned domain, bus, device;

		sscanf(line, "driver %95s", fake.driver);
		sscanf(line, "cuda %d", &fake.cuda);
		sscanf(line, "init %15s", fake.init);
		sscanf(line, "process_bytes %u", &fake.process_bytes);
		if (sscanf(line, "gpu %x:%x:%x", &domain, &bus, &device) == 3 && fake.n < GPUS)
			fake.gpus[fake.n++] = (struct gpu){ .domain = domain,
				.bus = bus,
				.device = device,
				.busy = -1,
				.power = -1,
				.limit = -1,
				.temperature = -1,
				.clock = -1 };
		else if (fake.n > 0)
			read_gpu_line(&fake.gpus[fake.n - 1], line);
	}
	if (f)
		fclose(f);
}

/* Handles: GPU i is i + 1, its part k is 1000 * (i + 1) + k + 1. */
static struct gpu *gpu_of(uintptr_t handle)
{
	return &fake.gpus[(handle >= 1000 ? handle / 1000 : handle) - 1];
}

static struct mig *mig_of(uintptr_t handle)
{
	return handle >= 1000 ? &gpu_of(handle)->migs[handle % 1000 - 1] : NULL;
}

#define CHECK(g)        \
	if ((g)->error) \
	return (g)->error

int nvmlInit_v2(void)
{
	read_facts();
	if (strcmp(fake.init, "hang") == 0)
		for (;;)
			pause();
	if (strcmp(fake.init, "crash") == 0)
		abort();
	return atoi(fake.init);
}

int nvmlShutdown(void)
{
	return 0;
}

const char *nvmlErrorString(int code)
{
	return code == 18    ? "Driver/library version mismatch"
		: code == 15 ? "GPU is lost"
		: code == 9  ? "Driver Not Loaded"
			     : "Some error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
	snprintf(text, size, "%s", fake.driver);
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = fake.n;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, uintptr_t *handle)
{
	*handle = i + 1;
	return fake.gpus[i].handle;
}

int nvmlDeviceGetPciInfo_v3(uintptr_t handle, unsigned char *pci)
{
	const struct gpu *g = gpu_of(handle);

	memset(pci, 0, 68);
	sprintf((char *)pci, "%04X:%02X:%02X.0", g->domain & 0xffff, g->bus, g->device);
	memcpy(pci + 16, &g->domain, 4);
	memcpy(pci + 20, &g->bus, 4);
	memcpy(pci + 24, &g->device, 4);
	sprintf((char *)pci + 36, "%08X:%02X:%02X.0", g->domain, g->bus, g->device);
	return 0;
}

int nvmlDeviceGetUUID(uintptr_t handle, char *text, unsigned size)
{
	CHECK(gpu_of(handle));
	snprintf(text, size, "%s", mig_of(handle) ? mig_of(handle)->uuid : gpu_of(handle)->uuid);
	return 0;
}

int nvmlDeviceGetName(uintptr_t handle, char *text, unsigned size)
{
	CHECK(gpu_of(handle));
	snprintf(text, size, "%s", gpu_of(handle)->name);
	return 0;
}

int nvmlDeviceGetCudaComputeCapability(uintptr_t handle, int *major, int *minor)
{
	CHECK(gpu_of(handle));
	*major = gpu_of(handle)->major;
	*minor = gpu_of(handle)->minor;
	return 0;
}

int nvmlDeviceGetMemoryInfo(uintptr_t handle, unsigned long long memory[3])
{
	const struct gpu *g = gpu_of(handle);

	CHECK(g);
	memory[0] = g->total;
	memory[1] = g->total - g->reserved - g->used;
	memory[2] = g->reserved + g->used;
	return 0;
}

int nvmlDeviceGetUtilizationRates(uintptr_t handle, unsigned busy[2])
{
	read_facts();
	CHECK(gpu_of(handle));
	if (gpu_of(handle)->busy < 0)
		return 3;
	busy[0] = (unsigned)gpu_of(handle)->busy;
	busy[1] = (unsigned)gpu_of(handle)->memory_busy;
	return 0;
}

static int tell(const struct gpu *g, int value, unsigned *ret)
{
	CHECK(g);
	*ret = (unsigned)value;
	return value < 0 ? 3 : 0;
}

int nvmlDeviceGetPowerUsage(uintptr_t handle, unsigned *milliwatts)
{
	return tell(gpu_of(handle), gpu_of(handle)->power, milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(uintptr_t handle, unsigned *milliwatts)
{
	return tell(gpu_of(handle), gpu_of(handle)->limit, milliwatts);
}

int nvmlDeviceGetTemperature(uintptr_t handle, int sensor, unsigned *celsius)
{
	return sensor ? 2 : tell(gpu_of(handle), gpu_of(handle)->temperature, celsius);
}

int nvmlDeviceGetClockInfo(uintptr_t handle, int type, unsigned *mhz)
{
	return type != 1 ? 2 : tell(gpu_of(handle), gpu_of(handle)->clock, mhz);
}

/* As nvmlProcessInfo_v1_t, _v2_t or the one of driver 535.43; what lies between the fields stays as
 * it is. */
static int list(
	uintptr_t handle, unsigned *count, unsigned char *out, int is_graphics, unsigned bytes)
{
	const struct gpu *g = gpu_of(handle);
	unsigned n = 0, room = *count, none = ~0u;
	unsigned long long zero = 0;

	CHECK(g);
	/* A GPU in parts tells of its parts alone. */
	for (unsigned i = 0; i < g->n_processes && (!g->n_migs || mig_of(handle)); i++) {
		const struct process *p = &g->processes[i];

		if (p->is_graphics != is_graphics || n++ >= room)
			continue;
		memcpy(out, &p->pid, 4);
		memcpy(out + 8, &p->memory, 8);
		if (bytes >= 24) {
			memcpy(out + 16, &none, 4);
			memcpy(out + 20, &none, 4);
		}
		if (bytes >= 32)
			memcpy(out + 24, &zero, 8);
		out += bytes;
	}
	*count = n;
	return n > room ? 7 : 0;
}

#ifdef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses(uintptr_t handle, unsigned *count, void *out)
{
	return list(handle, count, out, 0, 16);
}
#else
int nvmlDeviceGetBrand(uintptr_t handle, int *brand)
{
	*brand = gpu_of(handle)->brand;
	return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = fake.cuda;
	return 0;
}

int nvmlDeviceGetMemoryInfo_v2(uintptr_t handle, unsigned char *memory)
{
	const struct gpu *g = gpu_of(handle);
	unsigned long long words[4] = { g->total, g->reserved, g->total - g->reserved - g->used,
		g->used };
	unsigned version;

	CHECK(g);
	memcpy(&version, memory, 4);
	if (version != (2u << 24 | 40))
		return 25;
	memcpy(memory + 8, words, sizeof(words));
	return 0;
}

int nvmlDeviceGetMigMode(uintptr_t handle, unsigned *current, unsigned *pending)
{
	*current = *pending = gpu_of(handle)->n_migs > 0;
	return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(uintptr_t handle, unsigned *n)
{
	(void)handle;
	*n = 7;
	return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(uintptr_t handle, unsigned i, uintptr_t *part)
{
	*part = 1000 * handle + i + 1;
	return i < gpu_of(handle)->n_migs ? 0 : 6;
}

int nvmlDeviceGetGpuInstanceId(uintptr_t handle, unsigned *id)
{
	*id = mig_of(handle) ? mig_of(handle)->gi : 0;
	return mig_of(handle) ? 0 : 3;
}

int nvmlDeviceGetComputeInstanceId(uintptr_t handle, unsigned *id)
{
	*id = mig_of(handle) ? mig_of(handle)->ci : 0;
	return mig_of(handle) ? 0 : 3;
}

int nvmlDeviceGetComputeRunningProcesses_v3(uintptr_t handle, unsigned *count, void *out)
{
	return list(handle, count, out, 0, fake.process_bytes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(uintptr_t handle, unsigned *count, void *out)
{
	return list(handle, count, out, 1, fake.process_bytes);
}
#endif
