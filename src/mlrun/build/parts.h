/* Internal to this room: a build under way. */
#pragma once

#include "build/copy.h"
#include "build/state.h"
#include "recipe/stages.h"

struct build {
	const struct build_options *o;
	struct stages stages;
	struct state *states; /* of each stage; done ones are complete */
	struct ignore ignore;
	int64_t now;           /* the time of what is made: SOURCE_DATE_EPOCH or the clock's */
	struct strv used;      /* names of --build-arg that an ARG declares */
	struct strv scratch;   /* directories of the store that end with the build */
	struct oci_step *made; /* n_made steps */
	size_t n_made, cached;
	size_t at;                /* the stage being built */
	struct store *containers; /* where RUN writes: the store, or one on a local disk */
};

/* Choose where RUN writes, and remove that again. Returns 0, or -ENOTSUP if no place can hold it.
 */
int build_places_open(struct build *b, struct mlr_error *err);
void build_places_close(struct build *b);

/* Is the build to stop? */
int build_is_cancelled(const struct build *b);

/* Build a stage and those that it needs. */
int build_stages(struct build *b, size_t target, struct mlr_error *err);

/* The value of --build-context NAME=VALUE, or NULL. */
const char *build_context_named(const struct build *b, const char *name);

/* The platform that a stage is built for. */
const char *build_platform(const struct build *b, const struct stage *g);

/* May an instruction, of the recipe or of an image's ONBUILD, have what its flags reach? Returns 0
 * or -EPERM, with the option by which the caller would allow it. */
int build_may(const struct build *b, const struct instruction *in, struct mlr_error *err);

/* Is the recipe a definition file of the caller's, which may name the caller's files? */
int build_is_callers(const struct build *b);

/* Begin a state with the image that a recipe names, for a platform or NULL. Places on this machine
 * are -EPERM, unless the recipe is the caller's or --build-context gives the name one. */
int build_open_image(struct build *b, const char *name, const char *platform, struct state *s,
	struct mlr_error *err);

/* The directory that a name in --from means: a stage's, an image's or a context's. NULL: the build
 * context. Its descriptor is the caller's.
 *
 *   key  gets the digest of a stage's or an image's files, to free(); NULL for a directory, whose
 *        content decides
 */
int build_source(struct build *b, const char *from, struct copy_source *ret, char **key,
	struct mlr_error *err);

/* Print a time as RFC 3339 says. */
void build_time(int64_t seconds, char out[32]);

/* Write the layer of one instruction, or find it in the cache. */
int build_copy_step(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err);
/* Make the working directory, if the image lacks it. */
int build_workdir_step(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err);

/*
 * The ids of "USER[:GROUP]", names or numbers, by the image's passwd and group. The group's default
 * is the user's, or for a number the same. Returns 0, or -ENOENT.
 */
int build_ids(
	const struct plan *p, const char *text, int64_t *uid, int64_t *gid, struct mlr_error *err);

/* Give the step a key of its own: its layer has other files than the key says. */
void build_forget_key(struct state *s);

/* Is the step with the state's key in the cache? Returns 1, and adds its layer then. */
int build_cached(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err);

/* Add a layer that was made and remember it. diff_id "": nothing was written. */
int build_add_layer(struct build *b, struct state *s, const struct instruction *in,
	const char *diff_id, uint64_t size, struct mlr_error *err);
