/*
 * Ownership: a scope releases what it acquired on every way out.
 *
 *   auto_free char *s = NULL;             free(s) at the end of the scope
 *   auto_close int fd = -1;               close(fd) unless negative
 *   auto_call(thing_done) struct thing t = THING_INIT;
 *
 * Initialise where declared, and declare in the order of acquiring: releasing runs in reverse.
 * Giving away is visible: *ret = take_ptr(&s); return take_fd(&fd).
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define auto_call(fn) __attribute__((cleanup(fn)))
#define auto_free     auto_call(mlr_cleanup_free)
#define auto_close    auto_call(fd_close)

/* Define a function for auto_call() that passes a pointer on to the one that frees it. */
#define MLR_CLEANUP(name, type, free_it) \
	static inline void name(type *p) \
	{                                \
		free_it(*p);             \
	}

/* Free an array of n elements, with what they own. */
#define free_all(v, n, done)                        \
	do {                                        \
		for (size_t i_ = 0; i_ < (n); i_++) \
			done(&(v)[i_]);             \
		free(v);                            \
	} while (0)

/* Return the variable's value and leave NULL in it; has the variable's type. */
#define take_ptr(p)                                           \
	({                                                    \
		__typeof__(p) take_from_ = (p);               \
		__typeof__(*take_from_) taken_ = *take_from_; \
		*take_from_ = NULL;                           \
		taken_;                                       \
	})

/* Free what a pointer has, and give it this value, which is computed before: set_ptr(&s, more). */
#define set_ptr(p, value)                        \
	do {                                     \
		__typeof__(*(p)) set_ = (value); \
		free(*(p));                      \
		*(p) = set_;                     \
	} while (0)

/* The same of a struct, which becomes what `empty` initialises: *ret = take_struct(&t, T_INIT). */
#define take_struct(p, empty)                                 \
	({                                                    \
		__typeof__(p) take_from_ = (p);               \
		__typeof__(*take_from_) taken_ = *take_from_; \
		*take_from_ = (__typeof__(taken_))empty;      \
		taken_;                                       \
	})

static inline void mlr_cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Close a descriptor unless it is negative; it becomes -1, and errno stays. */
static inline void fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

/* The number of elements in an array (not a pointer). */
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
