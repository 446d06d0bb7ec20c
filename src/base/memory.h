/*
 * Small memory: these never return NULL. What a peer sizes (blobs, documents, tensors) must not
 * come from here but from malloc() with -ENOMEM as the answer and a stated ceiling.
 */
#ifndef MLR_BASE_MEMORY_H
#define MLR_BASE_MEMORY_H

#include <stdarg.h>
#include <stddef.h>

/*
 * Called when memory runs out; must not return. The default prints "out of memory" and exits
 * with 125, mlrun's own failure. A plugin living in somebody else's process sets its own.
 */
extern void (*mlr_oom)(void);

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
/* Room for n elements of size bytes each; dies on overflow as on lack of memory. */
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Room for one element more in an array of n, which grows by nothing else: to 8, then twofold. */
void *xgrow(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
char *xvasprintf(const char *fmt, va_list ap)
	__attribute__((format(printf, 1, 0), returns_nonnull));

#endif
