/*
 * Holds what `mlrun gpu top` shows: top.c collects it from cmd_gpu_top.c's readings; top_view.c and
 * top_log.c print it.
 */
#pragma once

#include "cli/top_node.h"
#include "gpu/machine.h"
#include "gpu/nvidia/nvml.h"

struct top_gpu {
	const struct gpu *gpu;
	const struct gpu_sample *sample; /* NULL: nothing known now */
};

/* A process on a GPU; once for each of its GPUs. */
struct top_process {
	pid_t pid;
	int index;      /* of the GPU */
	int64_t memory; /* bytes; -1 */
	char *user;     /* "?" for a process that is not visible */
	char *command;  /* its arguments, separated by blanks, not escaped */
};

struct top {
	char host[65];
	int64_t time; /* seconds since the epoch */
	char *driver; /* "NVIDIA driver 535.104.05, CUDA 12.2"; NULL */
	char *scope;  /* "1 of 4 GPUs: CUDA_VISIBLE_DEVICES=2"; NULL: all */
	char *note;   /* why there are no samples; NULL */
	struct top_gpu *gpus;
	size_t n_gpus;
	struct top_process *processes;
	size_t n_processes;
	struct top_node node;
};

/*
 * Collect the current state.
 *
 *   m, is_shown   the machine, and for each of its GPUs whether it is shown
 *   samples, n    the GPUs' samples; borrowed, like m
 *   node          from top_node_next()
 *   ret           zeroed; the caller sets host, driver, scope and note
 */
void top_fill(struct top *ret, const struct gpu_machine *m, const char *is_shown,
	const struct gpu_sample *samples, int n, const struct top_node *node);

/* Free what top_fill() made, but not driver, scope and note. */
void top_empty(struct top *t);

/*
 * Print the view as lines of at most width columns, without control characters.
 *
 *   height  at most so many lines, 0: no limit; processes are omitted first
 *
 * To free().
 */
char *top_view(const struct top *t, int width, int height);

/*
 * Open a file to append samples as CSV (RFC 4180), and give it a header if it is empty; a file that
 * begins with another line is refused. Several processes, even on several nodes, may write to one
 * file: each appends whole lines under a lock (fcntl(2)), which NFS and Lustre support.
 *
 * Returns a descriptor, -EEXIST for another kind of file, or another -errno.
 */
int top_log_open(const char *path, struct mlr_error *err);

/* Append a line for each GPU, or one line without a GPU. Returns 0 or -errno. */
int top_log_add(int fd, const char *path, const struct top *t, struct mlr_error *err);

/* Return those lines, to free(). For tests. */
char *top_log_lines(const struct top *t);

extern const char top_log_header[];
