/*
 * build: turns a recipe into an image, reusing the steps it has already done.
 *
 * A stage is a state: a configuration and a list of layers of the store. RUN is what exec --write
 * and commit do; COPY writes a layer straight from its source, without a container. A step that
 * makes a layer is looked up in the build cache first (store/cache.h), by a digest of all that it
 * depends on: the files so far, the expanded instruction, the variables, and the content and modes
 * of what it copies. Stages that do not need each other are built side by side.
 */
#pragma once

#include "base/config.h"
#include "oci/steps.h"
#include "recipe/recipe.h"
#include "store/cache.h"
#include "store/stores.h"

struct build_options {
	struct store *st;            /* gets the image; opened for adding */
	const struct stores *others; /* additional stores, which may have images that FROM names */
	const struct recipe *recipe;
	int context;              /* a directory, open */
	int is_strangers;         /* the recipe was fetched, or the caller has not named it */
	const char *ignore;       /* text of the ignore file, or NULL */
	const char *const *names; /* n_names canonical names for the image; none: it gets none */
	size_t n_names;
	const char *target;          /* --target; NULL: the last stage */
	const struct strv *args;     /* "K=V": --build-arg */
	const struct strv *platform; /* "K=V": TARGETPLATFORM and so on */
	const struct strv *labels;   /* "K=V" */
	const struct strv *secrets;  /* "id=ID[,src=FILE|,env=NAME]" */
	const struct strv *contexts; /* "NAME=DIR" or "NAME=IMAGE": --build-context */
	const struct strv *ssh;      /* "ID=SOCKET": agents */
	const struct strv *volumes;  /* "SRC[:DST[:FLAGS]]", which every command sees */
	const struct config *config; /* its [build] section; or NULL */
	const struct strv *allowed;  /* --allow: "device", "device=NAME", "network.host" */
	const char *network;         /* "host" or "none"; NULL: host */
	int no_cache, is_quiet;
	int squash;           /* make one layer of those that the target adds to its base */
	size_t jobs;          /* commands at once, at least 1 */
	int shell_on_failure; /* open a shell where a RUN failed, on the caller's terminal */
	int64_t epoch;        /* SOURCE_DATE_EPOCH; 0: not set */
	const int *cancel;    /* read atomically; not 0 stops the work. May be NULL */

	/* Find an image in the stores, or fetch it, and say which store has it. layers: it must be
	 * there as layers, not only as one file. Returns 0 or -errno. */
	int (*find)(void *ctx, const char *image, const char *platform, struct store **st,
		struct store_image *ret, struct mlr_error *err);
	/* Look for a step, by its key, in caches elsewhere, and bring its layer into the store.
	 * Returns 1, or 0 if there is none. NULL: there are no such caches. */
	int (*find_step)(void *ctx, const char *key, struct store_cached *ret);
	void *ctx;
};

struct build_result {
	struct store_image image; /* its name is the first one, or its manifest's digest */
	struct strv unused_args;  /* names of --build-arg that no ARG declares */
	size_t steps, cached;  /* that make layers; of these, those that were found in the cache */
	struct oci_step *made; /* the steps, in the order in which they were done */
};

void build_result_done(struct build_result *r);

/*
 * Build.
 *
 * Returns 0; -EINVAL for what the recipe asks and cannot be done; -ECHILD if a RUN failed: the
 * error names its line and status; -ENOENT for a file that is not in the context; the store's
 * errors. After a failure no name has changed.
 */
int build_run(const struct build_options *o, struct build_result *ret, struct mlr_error *err);
