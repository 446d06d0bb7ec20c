/*
 * Prints a plan before the runtime acts on it: every entry with its origin and what it replaces.
 */
#pragma once

#include "plan/plan.h"

#include <jansson.h>

enum plan_there {
	PLAN_THERE_UNKNOWN, /* only mounting it would tell */
	PLAN_THERE_NOTHING,
	PLAN_THERE_FILE,
	PLAN_THERE_DIRECTORY,
	PLAN_THERE_LINK,
	PLAN_THERE_OTHER, /* a device, a fifo, a socket */
};

/* The kind of file at a path of the image. */
struct plan_seen {
	enum plan_there there;
	char *path; /* the path with links resolved, as the kernel lists mounts; NULL: the path that
		     * was asked for */
	char *link; /* PLAN_THERE_LINK: its target */
	size_t entries; /* PLAN_THERE_DIRECTORY: how many names are in it */
};

void plan_seen_done(struct plan_seen *s);

/*
 * Look into the image.
 *
 *   follow  follow a link at the path's end, as mounts do
 *   ret     zeroed
 */
typedef void (*plan_look_fn)(void *ctx, const char *path, int follow, struct plan_seen *ret);

/* Inputs of an explanation beside the plan. */
struct plan_context {
	plan_look_fn look;
	void *ctx;         /* look's */
	struct strv files; /* paths of the files written into the image, of origin "default" */
	uint64_t caps;     /* the command's capabilities: bit n is number n */
};

/* The place of one mount. */
struct plan_place {
	struct plan_seen seen;           /* what is there before the mount */
	const struct plan_mount *on;     /* the last earlier mount at or above the place; NULL: the
					  * image's own root */
	const struct plan_mount **hides; /* earlier mounts that this one is the first to hide */
	size_t n_hides;
	int left_out; /* not made: an optional source is missing, or the place of a link is taken */
};

/* The places of p->mounts, in the same order. To plan_places_free(). */
struct plan_place *plan_places(const struct plan *p, const struct plan_context *c);
void plan_places_free(struct plan_place *v, size_t n);

/* "file", "directory" and so on. */
const char *plan_there_name(enum plan_there there);

/* Print for people, one entry a line. */
void plan_print(const struct plan *p, const struct plan_context *c, FILE *out);

/* Make JSON for programs; mlrun-exec(1) lists the keys. Returns an object, or NULL if out of
 * memory. */
json_t *plan_json(const struct plan *p, const struct plan_context *c);
