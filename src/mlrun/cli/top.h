/*
 * What `mlrun gpu top` shows, as data: collected by top.c of what top_source.c looks at, made text
 * by top_view.c and top_log.c, put on a terminal by top_screen.c.
 */
#ifndef MLR_CLI_TOP_H
#define MLR_CLI_TOP_H

#include "cli/top_node.h"
#include "gpu/machine.h"
#include "gpu/nvidia/nvml.h"

#include <stdint.h>

struct top_gpu {
	const struct gpu *gpu;
	const struct gpu_sample *sample; /* NULL: nothing is known of it now */
};

/* A process on a GPU; one that is on several is there several times. */
struct top_process {
	pid_t pid;
	int index;      /* of the GPU */
	int64_t memory; /* bytes; -1 */
	char *user;     /* "?" for a process that cannot be seen from here */
	char *command;  /* its arguments, a blank between them; what they hold is not escaped */
};

struct top {
	char host[65];
	int64_t time; /* seconds since the epoch */
	char *driver; /* "NVIDIA driver 535.104.05, CUDA 12.2"; NULL */
	char *scope;  /* "1 of 4 GPUs: CUDA_VISIBLE_DEVICES=2"; NULL: all */
	char *note;   /* why GPUs tell nothing; NULL */
	struct top_gpu *gpus;
	size_t n_gpus;
	struct top_process *processes;
	size_t n_processes;
	struct top_node node;
};

/*
 * Make a picture of now.
 *
 *   m, is_shown   the machine, and for each of its GPUs whether it is to be in it
 *   samples, n    what is known of them; borrowed as m is
 *   node          as top_node_next() gave it
 *   ret           zeroed; host, driver, scope and note are the caller's to set
 */
void top_fill(struct top *ret, const struct gpu_machine *m, const char *is_shown,
	const struct gpu_sample *samples, int n, const struct top_node *node);

/* Free what top_fill() made; driver, scope and note stay. */
void top_empty(struct top *t);

#endif
