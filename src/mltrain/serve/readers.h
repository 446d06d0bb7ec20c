/*
 * Threads that read what takes long: pictures and large bodies. The thread that speaks HTTP goes on
 * with all other connections meanwhile.
 */
#ifndef MLT_SERVE_READERS_H
#define MLT_SERVE_READERS_H

#include "base/base.h"

struct serve_readers;

/* A body to read. */
struct serve_reading {
	void (*run)(struct serve_reading *r); /* called once, in a thread of the readers; r may be
						 gone afterwards */
	void *ctx;
	struct serve_reading *next; /* the readers' own */
};

/* Start so many threads. Returns 0, or -EAGAIN and the like. */
int serve_readers_open(int threads, struct serve_readers **ret, struct mlr_error *err);

/* End when all that was put is read. */
void serve_readers_close(struct serve_readers **r);

/* Read it when its turn comes. */
void serve_readers_put(struct serve_readers *r, struct serve_reading *reading);

#endif
