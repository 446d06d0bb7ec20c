/*
 * Collects the data of `mlrun gpu top`: the machine's GPUs, the selected ones, the samples of
 * NVIDIA's library and AMD's files, the processors.
 */
#ifndef MLR_CLI_TOP_SOURCE_H
#define MLR_CLI_TOP_SOURCE_H

#include "cli/top.h"
#include "gpu/gpu.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/root.h"

struct top_samples {
	struct gpu_sample *v;
	int n;
};

struct top_source {
	struct gpu_machine machine;
	struct gpu_dir dir;
	int is_job;
	char *is_shown;             /* for each of the machine's GPUs */
	struct gpu_watch watch;     /* from is -1 without NVIDIA's library */
	struct top_samples arrived; /* received, not yet in top */
	struct top_samples shown;   /* those in top */
	struct top_node_watch *node;
	struct top top; /* the latest state; its note explains missing samples */
};

#define TOP_SOURCE_INIT                                                                   \
	{                                                                                 \
		.machine = GPU_MACHINE_INIT, .dir = GPU_DIR_INIT, .watch = GPU_WATCH_INIT \
	}

/*
 * Start sampling the job's GPUs, or all.
 *
 * Returns 0, also without samples; an -errno when the machine or the job cannot be read. Close the
 * source either way.
 */
int top_source_open(struct top_source *s, int all, unsigned interval_ms, struct mlr_error *err);
void top_source_close(struct top_source *s);

/* Read what the library sent. Returns 0, or -errno when it has stopped: the note changes. */
int top_source_hear(struct top_source *s);

/* Put the current state into top. */
void top_source_next(struct top_source *s);

#endif
