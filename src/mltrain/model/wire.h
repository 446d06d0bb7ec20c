/*
 * Protocol buffers' wire format, written by hand (protobuf.dev/programming-guides/encoding): a
 * message is fields, each a number with a type and then a varint, four bytes, or a length and
 * bytes. Enough for ONNX and TensorBoard's like.
 *
 *   struct wire w = WIRE_INIT;
 *   size_t mark = wire_begin(&w, 7);
 *   wire_text(&w, 2, "name");
 *   wire_end(&w, mark);
 *
 * What does not fit memory makes failed, after which everything is ignored.
 */
#ifndef MLT_MODEL_WIRE_H
#define MLT_MODEL_WIRE_H

#include <stddef.h>
#include <stdint.h>

struct wire {
	char *data; /* [len], owned */
	size_t len, size;
	int failed;
};

#define WIRE_INIT             \
	{                     \
		NULL, 0, 0, 0 \
	}

void wire_done(struct wire *w);

/* A whole number; negative ones as int64 does. */
void wire_number(struct wire *w, int field, int64_t v);
void wire_float(struct wire *w, int field, float v);
void wire_text(struct wire *w, int field, const char *s);

/* Room for bytes of which the caller fills all; NULL after a failure. Valid until the next call. */
void *wire_bytes(struct wire *w, int field, size_t len);

/* A message within this one: what is written until wire_end() belongs to it. */
size_t wire_begin(struct wire *w, int field);
void wire_end(struct wire *w, size_t mark);

#endif
