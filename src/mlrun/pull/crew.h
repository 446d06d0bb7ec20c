/*
 * The threads that fetch an image's layers, several at once, the largest first. For this room's
 * other files.
 */
#ifndef MLR_PULL_CREW_H
#define MLR_PULL_CREW_H

#include "base/error.h"
#include "oci/manifest.h"
#include "pull/pull.h"
#include "pull/source.h"
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

/* Report how many device members of an image's layers were left out, if any. */
void crew_tell_devices(uint64_t n, const struct pull_watch *watch);

#endif
