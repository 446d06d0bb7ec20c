#include "backend/cuda/device.h"

#include "tensor/driver.h"

#define SM_MIN 80 /* what the Makefile compiles kernels for at least */

int cuda_check(cudaError_t got, const char *call, const char *file, int line, struct mlr_error *err)
{
	const char *base = strrchr(file, '/');

	if (got == cudaSuccess)
		return 0;
	return mlr_fail(err, got == cudaErrorMemoryAllocation ? ENOMEM : EIO,
		"%s: %s (%s, line %d)", call, cudaGetErrorString(got), base ? base + 1 : file,
		line);
}

/* Why there is no device, in words that lead to a way out; missing: why there is no driver. */
static int no_device(cudaError_t got, int driver, struct mlr_error *missing, struct mlr_error *err)
{
	int runtime = 0;

	cudaRuntimeGetVersion(&runtime);
	if (got == cudaErrorInsufficientDriver && !driver && missing->code) {
		mlr_wrap(missing, "no GPU"); /* the runtime's words for none at all */
		return mlr_pass(err, ENODEV, missing->text);
	}
	mlr_fail(err, ENODEV, "no GPU: %s",
		got == cudaSuccess ? "there is none" : cudaGetErrorString(got));
	if (got == cudaErrorInsufficientDriver && driver)
		return mlr_hint(err,
			"the driver is for CUDA %d.%d, this mltrain was made with %d.%d",
			driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	return mlr_hint(err, "nvidia-smi and CUDA_VISIBLE_DEVICES tell which GPUs a process sees");
}

/* 16 bytes as a number that a double holds (FNV-1a, of which the upper bits are the better
 * ones). */
static uint64_t id_of(const void *uuid)
{
	const unsigned char *p = uuid;
	uint64_t hash = 0xcbf29ce484222325u;

	for (int i = 0; i < 16; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u;
	return hash >> 12;
}

int device_take(int local_rank, struct device *ret, struct mlr_error *err)
{
	struct cudaDeviceProp prop;
	struct device d = { 0 };
	cudaError_t got;
	struct mlr_error missing = MLR_ERROR_INIT;
	int count = 0, driver = 0;

	/* CUDA's runtime asks the linker for it alone, in its first call. */
	driver_library_open("", "libcuda.so.1", &missing);
	cudaDriverGetVersion(&driver);
	got = cudaGetDeviceCount(&count);
	if (got != cudaSuccess || count == 0)
		return no_device(got, driver, &missing, err);
	d.ordinal = local_rank % count;
	CU_TRY(cudaSetDevice(d.ordinal));
	CU_TRY(cudaGetDeviceProperties(&prop, d.ordinal));
	d.sm = prop.major * 10 + prop.minor;
	if (d.sm < SM_MIN) {
		mlr_fail(err, ENODEV, "GPU %d, '%s', has compute capability %d.%d", d.ordinal,
			prop.name, prop.major, prop.minor);
		return mlr_hint(err, "the backend cuda needs %d.%d (Ampere) or later", SM_MIN / 10,
			SM_MIN % 10);
	}
	snprintf(d.name, sizeof(d.name), "%.63s", prop.name);
	d.id = id_of(&prop.uuid);
	d.memory = prop.totalGlobalMem;
	*ret = d;
	return 0;
}
