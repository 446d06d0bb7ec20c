/*
 * Writes Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding), as far as ONNX
 * and TensorBoard need it: a message consists of fields, each a number with a type, then a varint,
 * four or eight bytes, or a length and bytes.
 *
 *   struct wire w = { 0 };
 *   size_t mark = wire_begin(&w, 7);
 *   wire_text(&w, 2, "name");
 *   wire_end(&w, mark);
 *
 * If memory runs out, failed is set and further calls do nothing.
 */
#pragma once

#include "base/base.h"

struct wire {
	char *data; /* [len], owned */
	size_t len, size;
	int failed;
};

void wire_done(struct wire *w);

/* An integer; negative ones as int64. */
void wire_number(struct wire *w, int field, int64_t v);
void wire_float(struct wire *w, int field, float v);
void wire_double(struct wire *w, int field, double v);
void wire_text(struct wire *w, int field, const char *s);

/* Reserve bytes, all of which the caller fills; NULL after a failure. Valid until the next call. */
void *wire_bytes(struct wire *w, int field, size_t len);

/* Begin a message within this one; all fields up to wire_end() belong to it. */
size_t wire_begin(struct wire *w, int field);
void wire_end(struct wire *w, size_t mark);
