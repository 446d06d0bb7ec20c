/*
 * The runs below some directories, kept up to date by a thread: as long as somebody looks, it lists
 * the directories again now and then, and reads what runs that go on have added. Every change has a
 * number, so that a page that saw change N gets what came after it.
 */
#pragma once

#include "web/query.h"

#define INDEX_DEPTH       8
#define INDEX_DIRECTORIES 100000
#define INDEX_METRICS     64 /* names in a list's answer */

struct index;

/*
 * Make an index, whose thread index_start() starts.
 *
 *   roots   borrowed
 *   tick    called in the index's thread, unlocked, after each look at the runs
 */
struct index *index_new(const struct strv *roots, void (*tick)(void *ctx), void *ctx);
int index_start(struct index *i, struct mlr_error *err);
void index_close(struct index **i);

/* How many look: pages' streams, and those who asked in the last seconds. Without any the index
 * sleeps. */
void index_look(struct index *i, int more);

/* Lists are read under a lock, which nobody holds for long. */
void index_lock(struct index *i);
void index_unlock(struct index *i);

/* Read a directory that has changed, or is new, now. Returns whether it is a run. Without the lock.
 */
int index_touch(struct index *i, const char *directory);

/* --- with the lock ----------------------------------------------------------------------- */

/* A run by its id, or NULL; was_there gets whether there was one of that id. */
struct run *index_find(struct index *i, const char *id, int *was_there);

/* The number of the last change. */
uint64_t index_now(const struct index *i);

/* Give a run that was changed the next number. */
void index_change(struct index *i, struct run *r);

/* Call for each run. */
void index_each(struct index *i, void (*call)(void *ctx, struct run *r), void *ctx);

/* Runs as the API has them: matched by a query, in an order, from an offset on. */
json_t *index_list(struct index *i, const struct query *q, size_t offset, size_t limit);

/* What has changed since, and which were removed. */
json_t *index_changes(struct index *i, uint64_t since);
