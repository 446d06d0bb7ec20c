/*
 * What `mlrun gpu top` shows, as data: collected by top.c of what top_source.c looks at, made text
 * by top_view.c and top_log.c.
 */
#ifndef MLR_CLI_TOP_H
#define MLR_CLI_TOP_H

#include "base/error.h"
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

/*
 * Lines that end with '\n', each of at most width columns, without control characters.
 *
 *   height  of lines at most, 0: as many as there are; processes are what is left out first
 *
 * To free().
 */
char *top_view(const struct top *t, int width, int height);

/*
 * Open a file to append samples to as CSV (RFC 4180), and give it a header when it is empty; one
 * that begins with another line is refused. Several processes, on several nodes too, may write to
 * one file: each writes whole lines at its end under a lock (fcntl(2)), which NFS and Lustre have.
 *
 * Returns a descriptor, -EEXIST for a file that is no log, or another -errno.
 */
int top_log_open(const char *path, struct mlr_error *err);

/* Append a line a GPU, or one without a GPU where there is none. Returns 0 or -errno. */
int top_log_add(int fd, const char *path, const struct top *t, struct mlr_error *err);

/* Those lines, to free(). For tests. */
char *top_log_lines(const struct top *t);

extern const char top_log_header[];

#endif
