/*
 * A hold's own file "holds/<name>", and the thread that beats. For store/hold.h's files alone.
 */
#ifndef MLR_STORE_HOLD_FILE_H
#define MLR_STORE_HOLD_FILE_H

#include "base/error.h"
#include "base/strv.h"
#include "store/hold.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

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

/* A name of its own; no file yet. kind: 'a' or 'r'. */
int hold_file_new(struct store *st, char kind, struct store_hold **ret, struct mlr_error *err);

/* Ends the beats; the file stays. */
void hold_file_free(struct store_hold *h);

/* Make the file of an adder, or replace it; NULL: he counts on everything. */
int hold_file_put(struct store_hold *h, const struct strv *digests, struct mlr_error *err);

/* Is the file that is open still the one of that name? */
int hold_file_is_there(const struct store_hold *h);

/* Beat once; the lock is held, or nobody else has h yet. Sets lost when the file is gone. */
void hold_file_beat(struct store_hold *h);

/* Beat until hold_file_free(). */
int hold_file_start(struct store_hold *h, struct mlr_error *err);

#endif
