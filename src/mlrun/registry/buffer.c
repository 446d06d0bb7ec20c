#include "registry/buffer.h"

int buffer_put(void *buffer, const void *bytes, size_t len, struct mlr_error *err)
{
	struct buffer *b = buffer;

	if (len > b->max - b->len)
		return mlr_fail(err, EFBIG, "the answer is longer than %zu bytes", b->max);
	if (b->len + len + 1 > b->room) {
		size_t room = 2 * (b->len + len) + 1;
		char *more = realloc(b->data, room);

		if (!more)
			return mlr_fail(
				err, ENOMEM, "no memory for an answer of %zu bytes", b->len + len);
		b->data = more;
		b->room = room;
	}
	memcpy(b->data + b->len, bytes, len);
	b->len += len;
	b->data[b->len] = '\0';
	return 0;
}

void buffer_done(struct buffer *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->room = 0;
}

void buffer_begin(void *buffer, struct http_exchange *x)
{
	buffer_done(buffer);
}
