/*
 * Reads a recipe's logical lines: without comments, with continued lines joined. For this room's
 * parser. Source: the Dockerfile reference, "Format" and "Parser directives".
 */
#ifndef MLR_RECIPE_LINES_H
#define MLR_RECIPE_LINES_H

#include "base/error.h"

#include <stddef.h>

enum { LINES_SYNTAX, LINES_ESCAPE, LINES_CHECK, LINES_DIRECTIVES };

struct lines {
	const char *at, *end;               /* what is left of the text; borrowed */
	unsigned number;                    /* of the physical line last read, from 1 */
	char escape;                        /* '\\', or '`' by the directive escape */
	char *directives[LINES_DIRECTIVES]; /* their values, or NULL */
	int are_over;                       /* directives stand only at the top */
};

struct logical_line {
	char *text;
	unsigned first, last; /* its physical lines */
	unsigned gap;         /* an empty line among the continued ones, or 0 */
};

/* Begin with len bytes of text, which must outlive the struct. */
struct lines lines_of(const char *text, size_t len);
void lines_done(struct lines *l);

/* Read the next logical line. Returns 1, 0 at the end, or -EINVAL for an invalid directive. */
int lines_next(struct lines *l, struct logical_line *ret, struct mlr_error *err);

/*
 * Read the physical lines up to one that is name alone: a here-document's content.
 *
 *   strip  remove leading tabs, as "<<-" asks, from the content and the last line
 *
 * Returns 0, or -EINVAL if the end is missing.
 */
int lines_heredoc(struct lines *l, const char *name, int strip, char **ret, struct mlr_error *err);

#endif
