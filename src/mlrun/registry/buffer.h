/* A size-limited buffer for a small document from the network. For this room's other files. */
#pragma once

#include "base/base.h"

struct http_exchange;

struct buffer {
	char *data; /* len bytes and a NUL, owned; NULL while empty */
	size_t len, max, room;
};

#define BUFFER_INIT(ceiling)          \
	{                             \
		NULL, 0, (ceiling), 0 \
	}

/* An http_sink_fn and a registry_sink_fn that appends. Returns 0, -EFBIG beyond the limit,
 * -ENOMEM. */
int buffer_put(void *buffer, const void *bytes, size_t len, struct mlr_error *err);
/* A struct request's begin(): empties it. The request's context begins with the buffer. */
void buffer_begin(void *buffer, struct http_exchange *x);
void buffer_done(struct buffer *b);
