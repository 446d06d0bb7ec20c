#include "model/wire.h"

#include <endian.h>

enum { TYPE_VARINT = 0, TYPE_64BITS = 1, TYPE_BYTES = 2, TYPE_32BITS = 5 };

#define VARINT_MAX 10

void wire_done(struct wire *w)
{
	free(w->data);
	*w = (struct wire){ 0 };
}

/* Append n bytes for the caller to fill. */
static char *room(struct wire *w, size_t n)
{
	size_t need, size = w->size ? w->size : 4096;
	char *data;

	if (w->failed || __builtin_add_overflow(w->len, n, &need) || need > SIZE_MAX / 4) {
		w->failed = 1;
		return NULL;
	}
	while (size < need)
		size *= 2;
	data = size > w->size ? realloc(w->data, size) : w->data;
	if (!data) {
		w->failed = 1;
		return NULL;
	}
	w->data = data;
	w->size = size;
	w->len = need;
	return data + need - n;
}

static size_t encode(uint64_t v, char out[VARINT_MAX])
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (char)(v | 0x80);
	out[n++] = (char)v;
	return n;
}

static void put(struct wire *w, const void *from, size_t n)
{
	char *to = room(w, n);

	if (to)
		memcpy(to, from, n);
}

static void put_varint(struct wire *w, uint64_t v)
{
	char text[VARINT_MAX];

	put(w, text, encode(v, text));
}

static void put_tag(struct wire *w, int field, int type)
{
	put_varint(w, (uint64_t)field << 3 | (uint64_t)type);
}

void wire_number(struct wire *w, int field, int64_t v)
{
	put_tag(w, field, TYPE_VARINT);
	put_varint(w, (uint64_t)v);
}

void wire_float(struct wire *w, int field, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits = htole32(bits);
	put_tag(w, field, TYPE_32BITS);
	put(w, &bits, sizeof(bits));
}

void wire_double(struct wire *w, int field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits = htole64(bits);
	put_tag(w, field, TYPE_64BITS);
	put(w, &bits, sizeof(bits));
}

void *wire_bytes(struct wire *w, int field, size_t len)
{
	put_tag(w, field, TYPE_BYTES);
	put_varint(w, len);
	return room(w, len);
}

void wire_text(struct wire *w, int field, const char *s)
{
	size_t len = strlen(s);
	char *to = wire_bytes(w, field, len);

	if (to)
		memcpy(to, s, len);
}

size_t wire_begin(struct wire *w, int field)
{
	put_tag(w, field, TYPE_BYTES);
	return w->len;
}

/* The length is known now: insert it before the message. */
void wire_end(struct wire *w, size_t mark)
{
	size_t len = w->len - mark, n;
	char text[VARINT_MAX];

	if (w->failed)
		return;
	n = encode(len, text);
	if (!room(w, n))
		return;
	memmove(w->data + mark + n, w->data + mark, len);
	memcpy(w->data + mark, text, n);
}
