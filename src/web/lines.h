/* Reads lines of JSON as programs write them. */
#pragma once

#include "base/base.h"

#include <jansson.h>

/* The step that a record is of, or the like of it; NAN: it has none. */
double lines_step(const json_t *o);

/* Parse a line. NaN and Infinity, which Python writes, become empty texts; has_nan gets whether
 * there were any. NULL: it is no object. */
json_t *lines_parse(const char *line, size_t len, int *has_nan);

/*
 * Read the whole lines of a file from an offset on.
 *
 *   line   called for each, without its end
 *
 * Returns the offset behind the last whole line, or -errno.
 */
off_t lines_read(int fd, off_t from, off_t to,
	void (*line)(void *ctx, const char *text, size_t len), void *ctx);
