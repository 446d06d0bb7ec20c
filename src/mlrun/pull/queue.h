/*
 * A bounded pipe of bytes from a writing thread to a reading one: the network may be ahead of the
 * disk by at most QUEUE_BYTES. For this room's other files.
 */
#pragma once

#include "base/base.h"

#define QUEUE_BYTES (4u << 20)

struct queue;

/* Returns 0 or -ENOMEM. */
int queue_new(struct queue **ret, struct mlr_error *err);
void queue_free(struct queue *q);

/* Writer: waits for room. A registry_sink_fn. Returns 0, or -EPIPE once the reader has left. */
int queue_put(void *queue, const void *buf, size_t len, struct mlr_error *err);

/* Writer, last call: the bytes are complete (result 0), or the reader gets this failure. */
void queue_end(struct queue *q, int result, const struct mlr_error *err);

/* Reader: waits for bytes. A layer_read_fn. Returns 1..len, 0 at the end, or the failure. */
ssize_t queue_get(void *queue, void *buf, size_t len, struct mlr_error *err);

/* Reader: copy the first len bytes without consuming them, len at most QUEUE_BYTES; before any
 * queue_get(). Returns the count, less than len only at the end. */
size_t queue_peek(struct queue *q, void *buf, size_t len);

/* Reader, last call: needs no more bytes. */
void queue_leave(struct queue *q);

MLR_CLEANUP(queue_cleanup, struct queue *, queue_free);
