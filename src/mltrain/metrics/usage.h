/*
 * The load of this process, its node and its GPUs. A separate thread takes samples, with all
 * signals blocked: they belong to the training thread.
 */
#pragma once

#include "base/base.h"

#define USAGE_GPUS_MAX 16

/* Unknown percents, power and temperature are negative; unknown memory is 0. */
struct usage_gpu {
	int index; /* NVML's */
	char name[64];
	double percent;
	uint64_t memory, memory_total;   /* bytes */
	double power_watts, temperature; /* degrees Celsius */
};

struct usage {
	double cpu_process_percent; /* 100: one CPU, all the time since the last sample */
	double cpu_node_percent;    /* 100: all CPUs of the node */
	uint64_t rss;               /* bytes */
	int gpus;
	struct usage_gpu gpu[USAGE_GPUS_MAX];
};

/* The counters at the last sample; zeroed before the first. */
struct usage_before {
	double seconds, process;
	unsigned long long busy, all;
};

/*
 * Take a sample, without GPUs.
 *
 *   root     "", or a directory to use as "/" (proc/stat, proc/self/statm)
 *   before   updated
 *
 * Percents are negative at the first call, and if files can't be read.
 */
void usage_read(const char *root, struct usage_before *before, struct usage *ret);

struct usage_sampler;

/* Called by the sampler's thread, and once by usage_stop(). */
typedef void (*usage_tell)(void *ctx, const struct usage *l);

/*
 * Start sampling at an interval in seconds.
 *
 *   with_gpus   ask NVML too, if its library is there; loaded in the sampler's thread
 *
 * Returns NULL if the thread can't be started, which is logged at debug level: the run goes on.
 */
struct usage_sampler *usage_start(double every, int with_gpus, usage_tell tell, void *ctx);

/*
 * Take a last sample and stop; NULL is fine. If the management library hangs with its GPU, this
 * abandons the thread after a second; it then reports nothing more.
 */
void usage_stop(struct usage_sampler **s);

/* --- nvml.c: the load of GPUs by NVIDIA's management library, libnvidia-ml.so.1, which is loaded
 * if it is installed and never required (base/nvml.h) --- */

struct nvml_watch;

/*
 * Load and start the library. It samples the GPUs that CUDA_VISIBLE_DEVICES names by number in
 * NVML's order or by UUID, or all of the node if the variable is not set. Returns NULL without a
 * library, a driver or such a GPU, which is logged at debug level.
 */
struct nvml_watch *nvml_open(void);

/* Sample at most max GPUs. Returns their number; 0 for NULL. */
int nvml_read(const struct nvml_watch *n, struct usage_gpu *ret, int max);

/* NULL is fine. The library stays loaded, as it may have threads. */
void nvml_close(struct nvml_watch **n);

/* Is a GPU in a list in CUDA_VISIBLE_DEVICES' form? A NULL list contains all. */
int nvml_is_listed(const char *list, unsigned index, const char *uuid);
