/*
 * A build's context: the directory that COPY takes files from. It is given as a directory; as a tar
 * of one, perhaps compressed; as a repository; as an http or https URL of a tar or a recipe; or as
 * "-", standard input with a tar or a recipe.
 */
#pragma once

#include "build/git.h"
#include "recipe/definition.h"
#include "store/store.h"

struct build_context {
	int fd; /* the directory, opened once: whoever may write beside it could exchange it */
	char *recipe; /* the recipe's text, where nothing else was given; the directory is empty */
	size_t recipe_len;
	char *scratch; /* a directory that was made for it, or NULL */
};

#define BUILD_CONTEXT_INIT \
	{                  \
		.fd = -1   \
	}

/* Is it a directory, so that nothing has to be fetched or unpacked? */
int build_context_is_directory(const char *text);

/*
 * Bring the context.
 *
 *   st   unpack it here
 *   how  for a repository; how->cancel for all
 *
 * Returns 0; -ENOENT; -EPROTO for a damaged archive; git_fetch()'s and registry_download()'s
 * errors.
 */
int build_context_open(struct store *st, const char *text, const struct git_access *how,
	struct build_context *ret, struct mlr_error *err);
void build_context_close(struct store *st, struct build_context *c);

/*
 * Read a context's recipe.
 *
 *   text  what the context was given as
 *   file  -f: a file, of a context that was fetched one in it; "-": standard input. NULL:
 *         "Dockerfile" or, without it, "Containerfile" of the context, else its only definition
 *         file
 *
 * Returns 0; -ENOENT; recipe_parse()'s or definition_parse()'s errors.
 */
int build_recipe_read(const struct build_context *c, const char *text, const char *file,
	const struct definition_options *o, struct recipe *ret, struct mlr_error *err);

/* Read the ignore file: FILE.dockerignore beside the recipe, else the context's .dockerignore or
 * .containerignore. ret stays NULL if there is none; to free(). */
int build_ignore_read(
	const struct build_context *c, const char *file, char **ret, struct mlr_error *err);
