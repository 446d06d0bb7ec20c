/*
 * A bounded pipe of bytes between two threads, one that writes and one that reads: the network may
 * run ahead of the disk by QUEUE_BYTES and no more. For this room's other files.
 */
#ifndef MLR_PULL_QUEUE_H
#define MLR_PULL_QUEUE_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

#define QUEUE_BYTES (4u << 20)

struct queue;

/* Returns 0 or -ENOMEM. */
int queue_new(struct queue **ret, struct mlr_error *err);
void queue_free(struct queue *q);

/* The writer's: waits for room. A registry_sink_fn. Returns 0, or -EPIPE once the reader left. */
int queue_put(void *queue, const void *buf, size_t len, struct mlr_error *err);

/* The writer's last call: these were all bytes (result 0), or the reader shall fail so. */
void queue_end(struct queue *q, int result, const struct mlr_error *err);

/* The reader's: waits for bytes. A layer_read_fn. Returns 1..len, 0 at the end, or the failure. */
ssize_t queue_get(void *queue, void *buf, size_t len, struct mlr_error *err);

/* The first up to len bytes without taking them, len at most QUEUE_BYTES; before any queue_get().
 * Returns the count, fewer than len only when there are no more. */
size_t queue_peek(struct queue *q, void *buf, size_t len);

/* The reader's last call: no more is wanted. */
void queue_leave(struct queue *q);

static inline void queue_cleanup(struct queue **q)
{
	queue_free(*q);
}

#endif
