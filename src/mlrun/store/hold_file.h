/*
 * One hold's file, "holds/<name>", and the thread that writes its heartbeat. For store/hold.c and
 * store/wait.c.
 */
#ifndef MLR_STORE_HOLD_FILE_H
#define MLR_STORE_HOLD_FILE_H

#include "base/base.h"
#include "store/hold.h"

#include <pthread.h>

#define HOLD_TOKEN    "holds/token"
#define HOLD_BEAT_LEN 17 /* the counter's line */
#define HOLD_PREFIX   8  /* "holds/" and a NUL */

struct store_hold {
	struct store *st;
	char path[STORE_HOLD_NAME + HOLD_PREFIX]; /* "holds/<name>" */
	pid_t pid;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	int fd;
	uint64_t beats;
	int lost, end, has_thread;
	pthread_t thread;
};

/* Choose a new name, without making the file. kind: 'a' adder, 'r' remover. */
int hold_file_new(struct store *st, char kind, struct store_hold **ret, struct mlr_error *err);

/* Stop the thread; the file stays. Frees h. */
void hold_file_free(struct store_hold *h);

/* Make or replace an adder's file; NULL: it relies on everything. */
int hold_file_put(struct store_hold *h, const struct strv *digests, struct mlr_error *err);

/* Does the name still belong to the open file? 0: another process deleted the hold. */
int hold_file_is_there(const struct store_hold *h);

/* Write the counter once. The caller has h->lock, or the only pointer to h. Sets lost if the file
 * is gone. */
void hold_file_beat(struct store_hold *h);

/* Start the thread that writes the counter until hold_file_free(). */
int hold_file_start(struct store_hold *h, struct mlr_error *err);

#endif
