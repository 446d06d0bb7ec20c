/*
 * Where the pictures of mlrun gpu top come from: the machine's GPUs, those that are shown, NVIDIA's
 * library and AMD's files, the processors.
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
	char *is_shown;             /* of each of the machine's GPUs */
	struct gpu_watch watch;     /* from is -1 where NVIDIA's library tells nothing */
	struct top_samples arrived; /* from it, and not in a picture yet */
	struct top_samples shown;   /* of the picture in top */
	struct top_node_watch *node;
	struct top top; /* the latest picture; its note tells why GPUs tell nothing */
};

#define TOP_SOURCE_INIT                                                                   \
	{                                                                                 \
		.machine = GPU_MACHINE_INIT, .dir = GPU_DIR_INIT, .watch = GPU_WATCH_INIT \
	}

/*
 * Begin to look, at the job's GPUs or at all.
 *
 * Returns 0, also where GPUs tell nothing, or as the machine or the job cannot be read; the source
 * is to be closed either way.
 */
int top_source_open(struct top_source *s, int all, unsigned interval_ms, struct mlr_error *err);
void top_source_close(struct top_source *s);

/* There is something to read from the library. Returns 0, or -errno when it tells nothing any more:
 * the picture has a new note. */
int top_source_hear(struct top_source *s);

/* A picture of now, as far as it is known, into top. */
void top_source_next(struct top_source *s);

#endif
