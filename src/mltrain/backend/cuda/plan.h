/*
 * A memory plan: every array that an engine needs, with the span of operations during which it is
 * in use, laid into one block so that arrays which are never in use together share their bytes.
 */
#pragma once

#include "base/base.h"

#define PLAN_ALIGN ((size_t)256)

struct plan_entry {
	const char *what; /* "parameters", "activations", …: entries of one name are told as one */
	size_t bytes, at;
	int from, to; /* operations, both included */
};

struct plan {
	struct plan_entry *entries; /* [n], owned */
	size_t n;
	size_t bytes; /* of the block, once placed */
};

/* From the first operation to the last. */
#define PLAN_ALWAYS 0, 1 << 30

/* Ask for an array. Returns its number. */
size_t plan_take(struct plan *p, const char *what, size_t bytes, int from, int to);

/* Decide where each array lies: the largest first, each as low as it fits. */
void plan_place(struct plan *p);

/* Where array i lies in the block. */
static inline void *plan_at(const struct plan *p, void *block, size_t i)
{
	return (char *)block + p->entries[i].at;
}

/*
 * A line for each name, with the bytes that its arrays would take by themselves, and a last one
 * with the block's, to free().
 */
char *plan_text(const struct plan *p);

void plan_done(struct plan *p);
