/*
 * Reads answers of HTTP/1.0 and HTTP/1.1 (RFC 9112), piece by piece, in constant memory. A body is
 * counted, and its beginning kept on request. Bytes that are not HTTP are refused, and ambiguous
 * ones: two lengths, a length in a chunked answer, a folded header.
 *
 *   struct answer a = { .keep_max = 100 };
 *   answer_begin(&a, 0);
 *   while ((r = answer_read(&a, bytes, n, &used)) == 0)
 *           …more bytes
 */
#pragma once

#include "base/base.h"

#define ANSWER_LINE_MAX 16384 /* bytes of a header, or of a chunk's first line */
#define ANSWER_HEAD_MAX 65536 /* bytes of all headers, or of all trailers */
#define ANSWER_BODY_MAX ((uint64_t)1 << 32)

/* A header's name and value, not ended by NULs; valid during the call. */
typedef void (*answer_header)(
	void *ctx, const char *name, size_t name_len, const char *value, size_t value_len);

enum answer_state {
	ANSWER_START,
	ANSWER_HEADERS,
	ANSWER_BODY,
	ANSWER_BODY_TO_END, /* of the connection */
	ANSWER_CHUNK_SIZE,
	ANSWER_CHUNK,
	ANSWER_CHUNK_END,
	ANSWER_TRAILERS,
	ANSWER_DONE,
};

struct answer {
	/* The caller's wishes, zero for none. */
	answer_header header;
	void *ctx;
	size_t keep_max; /* bytes of the body to keep */

	/* Properties known so far. */
	enum answer_state state;
	int status;
	int keeps_alive; /* another request may follow; known with ANSWER_DONE */
	char *body;      /* [kept], owned */
	size_t kept;

	/* The reader's own. */
	int no_body, old, has_length, chunked, closes;
	uint64_t left, seen; /* of the body or chunk; of the whole body */
	size_t head;
	char *line; /* [n_line]: the beginning of a line whose end has not come, owned */
	size_t n_line, room, body_room;
};

/* Begin another answer; keeps memory. head: the request was HEAD, so no body follows. */
void answer_begin(struct answer *a, int head);

void answer_done(struct answer *a);

/*
 * Read bytes.
 *
 *   used   how many were taken; fewer than n only when the answer is complete
 *
 * Returns 1 when it is complete, 0 when more must come, -EPROTO for what is not HTTP, -EFBIG above
 * the limits. After a failure only answer_begin() and answer_done() are allowed.
 */
int answer_read(struct answer *a, const char *bytes, size_t n, size_t *used);

/* The server closed the connection. Returns 1 if that completes the answer, otherwise 0. */
int answer_end(struct answer *a);
