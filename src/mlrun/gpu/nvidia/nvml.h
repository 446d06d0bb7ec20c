/*
 * What only NVIDIA's management library tells (nvml.h of the driver's): asked of
 * libexec/mlrun/mlrun-nvml, which loads libnvidia-ml.so.1 by dlopen(3), as mlrun is linked
 * statically. Never on the way of a start unless an image's requirement or a MIG uuid cannot be
 * judged without it.
 */
#ifndef MLR_GPU_NVML_H
#define MLR_GPU_NVML_H

#include "gpu/machine.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Fill in cuda, and of each GPU memory, brand, arch, model, uuid and its MIG devices' uuids, as far
 * as they are not known. A machine that was read without its driver's files is looked at again for
 * the library.
 *
 * Returns 0; -ENOENT where there is no such library; -EIO when it fails, with its words; -ETIMEDOUT
 * when it does not answer, as with a GPU that hangs.
 */
int gpu_nvml_fill(struct gpu_machine *m, struct mlr_error *err);

/* What a GPU does now. -1: it does not tell. */
struct gpu_process {
	pid_t pid;
	int64_t memory; /* bytes */
};

struct gpu_sample {
	char bus_id[32];
	int busy, memory_busy;             /* percent */
	int64_t memory_used, memory_total; /* bytes */
	double power, power_limit;         /* watts */
	int temperature;                   /* degrees Celsius */
	int clock;                         /* MHz */
	char trouble[64]; /* the library's words for a GPU that is broken; "": it is well */
	struct gpu_process *processes;
	size_t n_processes;
};

/*
 * A line of mlrun-nvml: fill in what m does not know yet, its GPUs found by their bus ids. A GPU
 * that is broken is a warning.
 *
 * Returns 0; -EIO with the library's words and the way out; -EPROTO for what is no answer.
 */
int gpu_nvml_read_query(const char *text, struct gpu_machine *m, struct mlr_error *err);

/* The same line: what the GPUs do, to gpu_samples_free(). Returns their number, or as above. */
int gpu_nvml_read_samples(const char *text, struct gpu_sample **ret, struct mlr_error *err);

/* A program that tells it again and again. */
struct gpu_watch {
	int from;
	pid_t pid;
	char *buf;
	size_t len, size;
};

#define GPU_WATCH_INIT            \
	{                         \
		-1, 0, NULL, 0, 0 \
	}

/* Start it; it ends with this process at the latest. Returns 0 or as gpu_nvml_fill(). */
int gpu_watch_open(const struct gpu_machine *m, unsigned interval_ms, struct gpu_watch *ret,
	struct mlr_error *err);
/*
 * The newest samples, to gpu_samples_free(), of what has come; poll(2) of from tells when there is
 * something. What came before them, while nobody read, is dropped. Returns their number; -EAGAIN
 * when not all of them are here yet; or another -errno: it has ended.
 */
int gpu_watch_next(struct gpu_watch *w, struct gpu_sample **ret, struct mlr_error *err);
void gpu_samples_free(struct gpu_sample *v, int n);
void gpu_watch_close(struct gpu_watch *w);

#endif
