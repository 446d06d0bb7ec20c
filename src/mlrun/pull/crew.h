/*
 * The threads that fetch an image's layers, several at once, the largest first. For this room's
 * other files.
 */
#pragma once

#include "oci/manifest.h"
#include "pull/pull.h"
#include "store/store.h"

struct crew_work {
	struct store *st;
	struct pull_source *source;
	const struct oci_layer *layers; /* n of them */
	char *const *diff_ids;          /* one for each layer */
	struct pull_layer *shown;       /* one for each layer; fetches those that wait */
	size_t n;
	unsigned parts; /* enum layer_parts (pull/layer.h) */
	int *stop;      /* set to 1 at the first failure, so that source gives up */
};

/*
 * Fetch every layer whose state is PULL_WAITING. A layer that appears twice is fetched once.
 *
 * Returns when all threads have ended: 0, -ECANCELED once *cancel is set, or the first failure.
 */
int crew_run(struct crew_work *w, int jobs, const struct pull_watch *watch, const int *cancel,
	struct mlr_error *err);

/* State shared by working threads and the thread that waits for them. */
struct crew_news {
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t changed;
	size_t changes; /* of layers' states, so far */
	size_t running; /* threads */
};

#define CREW_NEWS_INIT                                                    \
	{                                                                 \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 \
	}

/* For the working threads: change a layer's state; end. */
void crew_set_state(struct crew_news *news, struct pull_layer *shown, enum pull_state state);
void crew_thread_ended(struct crew_news *news);

/* Wait until no thread runs. Reports every change to the watcher; sets *stop once *cancel is set.
 */
void crew_attend(
	struct crew_news *news, const struct pull_watch *watch, const int *cancel, int *stop);

/* Report how many device members of an image's layers were left out, if any. */
void crew_tell_devices(uint64_t n, const struct pull_watch *watch);
