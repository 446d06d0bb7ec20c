/*
 * Computes what waits, several requests' images in one batch, in one thread. A request waits while
 * a batch is being computed; when none is, at most the delay wished for.
 */
#ifndef MLT_SERVE_QUEUE_H
#define MLT_SERVE_QUEUE_H

#include "serve/counts.h"
#include "serve/models.h"

struct serve_job {
	struct serve_model *model; /* borrowed until done() */
	const uint8_t *images;     /* [rows] */
	float *logits;             /* [rows][classes] */
	int rows;
	int failed; /* 0, or a positive errno */

	/* Called once, in the queue's thread, after the last row. */
	void (*done)(struct serve_job *job);
	void *ctx;

	/* The queue's own. */
	struct serve_job *next;
	int taken;
	double since;
};

struct serve_queue_wish {
	int batch;    /* images at once at most */
	double delay; /* seconds that a batch that is not full waits for more */
	int most;     /* images that wait at most */
};

struct serve_queue;

/* Start the thread. Returns 0, or -EAGAIN. */
int serve_queue_open(const struct serve_queue_wish *wish, struct serve_counts *counts,
	struct serve_queue **ret, struct mlr_error *err);

/* Wait for nothing any more, as the server ends. */
void serve_queue_hurry(struct serve_queue *q);

/* Compute what waits, and end the thread. */
void serve_queue_close(struct serve_queue **q);

/* Put a job at the end. Returns 0, or -EBUSY if as many images wait as may. */
int serve_queue_put(struct serve_queue *q, struct serve_job *job);

#endif
