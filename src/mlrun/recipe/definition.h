/*
 * Apptainer's definition files (apptainer.org/docs/user/main/definition_files.html), read into the
 * recipes that Dockerfiles make.
 *
 * A stage becomes FROM; COPY of %files; RUN of %post; COPY of the files below /.singularity.d that
 * other sections describe; LABEL and ENTRYPOINT; RUN of %test; all with is_section set.
 */
#pragma once

#include "recipe/recipe.h"

struct definition_options {
	const struct strv *args; /* "K=V": --build-arg */
	const char *library;     /* prefix of images of "Bootstrap: library"; NULL: refuse them */
	int no_test;             /* leave %test out */
};

/* Is a file of this name a definition file, whatever it contains? */
int definition_is_name(const char *name);

/* Is it one by its name, or by a header's key in its first line? */
int definition_is(const char *name, const char *text);

/*
 * Parse a file's text, with a value for each {{ NAME }}; name is for messages.
 *
 * Returns 0; -EINVAL with the line at fault; -ENOTSUP for what mlrun does not do; -EFBIG.
 */
int definition_parse(const char *name, const char *text, size_t len,
	const struct definition_options *o, struct recipe *ret, struct mlr_error *err);

/* List the sections. */
void definition_each_reach(reach_fn fn, void *ctx);
