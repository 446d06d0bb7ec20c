/*
 * A plan told before it is made true: every entry with its origin and what it takes the place of.
 */
#ifndef MLR_PLAN_EXPLAIN_H
#define MLR_PLAN_EXPLAIN_H

#include "plan/plan.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

enum plan_there {
	PLAN_THERE_UNKNOWN, /* nobody can look there without mounting it */
	PLAN_THERE_NOTHING,
	PLAN_THERE_FILE,
	PLAN_THERE_DIRECTORY,
	PLAN_THERE_LINK,
	PLAN_THERE_OTHER, /* a device, a fifo, a socket */
};

/* What is at a path of the image. */
struct plan_seen {
	enum plan_there there;
	char *path; /* the same place without links, as mounts are listed by the kernel; NULL: the
		     * path that was asked for */
	char *link; /* PLAN_THERE_LINK: its text */
	size_t entries; /* PLAN_THERE_DIRECTORY: how many names are in it */
};

void plan_seen_done(struct plan_seen *s);

/*
 * Look into the image.
 *
 *   follow  a link at the path's end leads on, as it does for mounts
 *   ret     zeroed
 */
typedef void (*plan_look_fn)(void *ctx, const char *path, int follow, struct plan_seen *ret);

/* What a plan itself does not know. */
struct plan_context {
	plan_look_fn look;
	void *ctx;         /* look's */
	struct strv files; /* paths of files that are written into the image, of origin "default" */
	uint64_t caps;     /* capabilities that the command has: bit n is number n */
};

/* Where one mount comes to lie. */
struct plan_place {
	struct plan_seen seen;       /* what is there before */
	const struct plan_mount *on; /* the earlier mount in which it lies, or at whose very place;
				      * NULL: the image's own root */
	const struct plan_mount **hides; /* n_hides earlier ones that cannot be seen any more */
	size_t n_hides;
	int left_out; /* its source is not there, which is fine; or there is something where a link
		       * was to be made */
};

/* One for each of p->mounts, to plan_places_free(). */
struct plan_place *plan_places(const struct plan *p, const struct plan_context *c);
void plan_places_free(struct plan_place *v, size_t n);

/* "file", "directory" and so on. */
const char *plan_there_name(enum plan_there there);

/* For people: one entry a line. */
void plan_print(const struct plan *p, const struct plan_context *c, FILE *out);

/* For programs; mlrun-exec(1) lists the keys. Returns an object, or NULL for lack of memory. */
json_t *plan_json(const struct plan *p, const struct plan_context *c);

#endif
