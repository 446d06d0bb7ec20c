/*
 * Looks into stacked trees as overlayfs(5) would show them, before the overlay is mounted. A look
 * costs a tenth of one through the overlay.
 */
#pragma once

#include "base/base.h"

/* The directories of one name that overlayfs merges, topmost first; empty if the name is absent. */
struct stack {
	int *fds; /* O_PATH; n of them */
	size_t n;
};

void stack_done(struct stack *s);

/* Append a directory; the stack then owns fd. */
void stack_take(struct stack *s, int fd);

enum stack_kind {
	STACK_ABSENT,
	STACK_DIR,
	STACK_FILE,
	STACK_OTHER,   /* a link, a fifo… */
	STACK_UNKNOWN, /* only the overlay can decide */
};

/*
 * Look up a name.
 *
 *   at  gets the tree's index in s, unless absent or unknown; may be NULL
 *   st  gets its attributes there; may be NULL
 */
enum stack_kind stack_look(const struct stack *s, const char *name, size_t *at, struct stat *st);

/* Look up a name and, if it is a directory, get its stack: ret, to stack_done(). */
enum stack_kind stack_down(
	const struct stack *s, const char *name, struct stack *ret, struct stat *st);
