/*
 * Directories of stacked trees, looked at as overlayfs(5) will show them, before the overlay is
 * mounted: a look costs a tenth of one through the overlay.
 */
#ifndef MLR_RUNTIME_STACK_H
#define MLR_RUNTIME_STACK_H

#include "base/error.h"

#include <stddef.h>
#include <sys/stat.h>

/* The directories of one name that overlayfs merges, topmost first. None: the name is not there. */
struct stack {
	int *fds; /* O_PATH; n of them */
	size_t n;
};

#define STACK_INIT      \
	{               \
		NULL, 0 \
	}
void stack_done(struct stack *s);

/* Append a directory; fd is the stack's then. */
void stack_take(struct stack *s, int fd);

enum stack_kind {
	STACK_ABSENT,
	STACK_DIR,
	STACK_FILE,
	STACK_OTHER,   /* a link, a fifo… */
	STACK_UNKNOWN, /* only the overlay can tell */
};

/*
 * What is there under a name?
 *
 *   at  the tree's index in s, unless absent or unknown; st what it is there; both may be NULL
 */
enum stack_kind stack_look(const struct stack *s, const char *name, size_t *at, struct stat *st);

/* The same, and of a directory the stack: ret, to stack_done(). */
enum stack_kind stack_down(
	const struct stack *s, const char *name, struct stack *ret, struct stat *st);

#endif
