/*
 * Allocates small memory; never returns NULL. For sizes that come from outside (blobs, documents,
 * tensors) use malloc(), return -ENOMEM, and state a limit.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

/*
 * Called when memory runs out; must not return. The default prints "out of memory" and exits with
 * 125, mlrun's own failure. A plugin in another program's process sets its own.
 */
extern void (*mlr_oom)(void);

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
/* Room for n elements of size bytes each; calls mlr_oom() on overflow, too. */
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Room for one more element in an array of n that grows only by this call: to 8, then doubling. */
void *xgrow(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Add an element to an array that grows so, and count it. Gives its address. */
#define xadd(v, n)                                   \
	({                                           \
		(v) = xgrow((v), (n), sizeof(*(v))); \
		&(v)[(n)++];                         \
	})
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
/* The text with each old replaced; old is not empty. */
char *xreplace(const char *text, const char *old, const char *by) __attribute__((returns_nonnull));
char *xvasprintf(const char *fmt, va_list ap)
	__attribute__((format(printf, 1, 0), returns_nonnull));

/* Sort n elements; v may be NULL if there are none, which qsort(3) does not allow. */
#define sort_all(v, n, compare)                                   \
	do {                                                      \
		if ((n) > 1)                                      \
			qsort((v), (n), sizeof(*(v)), (compare)); \
	} while (0)
