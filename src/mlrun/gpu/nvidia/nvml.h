/*
 * Asks NVIDIA's management library (the driver's nvml.h) through libexec/mlrun/mlrun-nvml, which
 * loads libnvidia-ml.so.1 with dlopen(3); mlrun itself is linked statically. A start asks only if
 * it needs to judge an image's requirement or a MIG UUID.
 */
#pragma once

#include "gpu/machine.h"

/*
 * Fill in cuda, and of each GPU the unknown among memory, brand, arch, model, uuid and its MIG
 * devices' UUIDs. For a machine read without its driver's files, the library is searched for.
 *
 * Returns 0; -ENOENT without the library; -EIO when it fails, with its message; -ETIMEDOUT when it
 * does not answer, as with a hanging GPU.
 */
int gpu_nvml_fill(struct gpu_machine *m, struct mlr_error *err);

/* The load of a GPU; -1: unknown. */
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
	char trouble[64]; /* the library's message about a broken GPU; "": healthy */
	struct gpu_process *processes;
	size_t n_processes;
};

/*
 * Read a line of mlrun-nvml: fill in what m does not know yet, matching GPUs by bus id. A broken
 * GPU becomes a warning.
 *
 * Returns 0; -EIO with the library's message and a hint; -EPROTO for an invalid line.
 */
int gpu_nvml_read_query(const char *text, struct gpu_machine *m, struct mlr_error *err);

/* Read the same line: what the GPUs do now, to gpu_samples_free(). Returns their number, or as
 * above. */
int gpu_nvml_read_samples(const char *text, struct gpu_sample **ret, struct mlr_error *err);

/* A running mlrun-nvml that samples periodically. */
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

/* Start it; it ends with this process at the latest. Returns 0 or like gpu_nvml_fill(). */
int gpu_watch_open(const struct gpu_machine *m, unsigned interval_ms, struct gpu_watch *ret,
	struct mlr_error *err);
/*
 * Get the newest samples that have arrived, to gpu_samples_free(); older ones are dropped. poll(2)
 * on from shows when something arrives. Returns their number; -EAGAIN when the line is incomplete;
 * another -errno: the program has ended.
 */
int gpu_watch_next(struct gpu_watch *w, struct gpu_sample **ret, struct mlr_error *err);
void gpu_samples_free(struct gpu_sample *v, int n);
void gpu_watch_close(struct gpu_watch *w);
