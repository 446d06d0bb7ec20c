/*
 * Patterns of files that a build leaves out: .dockerignore and COPY --exclude.
 *
 * A pattern is a path relative to the context's top, in which '*', '?' and [...] match within a
 * name (filepath.Match of Go) and "**" any number of directories. A pattern that matches a
 * directory matches what is in it. "!" before a pattern takes files in again; the last pattern that
 * matches decides. Source: docs.docker.com/build/concepts/context, ".dockerignore files".
 */
#pragma once

#include "base/base.h"

struct ignore {
	struct ignore_pattern *v;
	size_t n;
	int has_exceptions; /* a pattern begins with "!" */
};

void ignore_done(struct ignore *g);

/* Add one pattern; an empty one and a comment do nothing. */
void ignore_add(struct ignore *g, const char *pattern);

/* Add the patterns of a file's text, a line each. */
void ignore_parse(struct ignore *g, const char *text);

/* Is a path left out? It has no leading '/'. */
int ignore_match(const struct ignore *g, const char *path);
