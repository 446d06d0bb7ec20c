/*
 * How busy this process, its node and its GPUs are. A thread of its own takes samples, with every
 * signal blocked: signals are the training thread's.
 */
#ifndef MLT_METRICS_LOAD_H
#define MLT_METRICS_LOAD_H

#include "base/error.h"

#include <stdint.h>

#define LOAD_GPUS_MAX 16

/* Of what can't be told, percents, power and temperature are negative, memory is 0. */
struct load_gpu {
	int index; /* NVML's */
	char name[64];
	double percent;
	uint64_t memory, memory_total;   /* bytes */
	double power_watts, temperature; /* degrees Celsius */
};

struct load {
	double cpu_process_percent; /* 100: one CPU the whole time since the sample before */
	double cpu_node_percent;    /* 100: all CPUs of the node */
	uint64_t rss;               /* bytes */
	int gpus;
	struct load_gpu gpu[LOAD_GPUS_MAX];
};

/* What a sample is a difference to; zeroed before the first. */
struct load_before {
	double seconds, process;
	unsigned long long busy, all;
};

/*
 * Take a sample but for GPUs.
 *
 *   root     "" or a directory that stands for "/" (proc/stat, proc/self/statm)
 *   before   updated
 *
 * Percents are negative at the first call and where files can't be read.
 */
void load_read(const char *root, struct load_before *before, struct load *ret);

struct load_sampler;

/* Called by the sampler's thread, and once by load_stop(). */
typedef void (*load_tell)(void *ctx, const struct load *l);

/*
 * Start sampling every so many seconds.
 *
 *   with_gpus   ask NVML too, if its library is there (nvml.h); loaded in the sampler's thread
 *
 * Returns NULL when no thread can be had, which is told at debug level: a run goes on without.
 */
struct load_sampler *load_start(double every, int with_gpus, load_tell tell, void *ctx);

/*
 * Take a last sample and end; NULL is fine. A management library that hangs with its GPU is left
 * behind after a second: the thread then tells nothing any more.
 */
void load_stop(struct load_sampler **s);

#endif
