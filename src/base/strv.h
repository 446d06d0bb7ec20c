/*
 * Lists of strings: an array that ends with NULL, as argv and environ do, and its length.
 * A zeroed struct is an empty list whose v is NULL; strv_done() frees strings and array.
 */
#ifndef MLR_BASE_STRV_H
#define MLR_BASE_STRV_H

#include <stddef.h>

struct strv {
	char **v; /* n strings and a final NULL, owned; NULL while nothing was ever added */
	size_t n;
};

#define STRV_INIT       \
	{               \
		NULL, 0 \
	}
#define auto_strv __attribute__((cleanup(strv_done)))

void strv_done(struct strv *l);
/* Append a copy of s. */
void strv_add(struct strv *l, const char *s);
/* Append s itself, which the list then owns. */
void strv_take(struct strv *l, char *s);
void strv_addf(struct strv *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Is s among them? */
int strv_has(const struct strv *l, const char *s);
/* By bytes, as strcmp(3) orders them. */
void strv_sort(struct strv *l);
/* The array itself, never NULL, for execve(2) and printing: an empty list gives {NULL}. */
char *const *strv_argv(const struct strv *l);

/* The first max strings as one text, with sep between them; to free(). */
char *strv_join(const struct strv *l, size_t max, const char *sep);
/* The first strings that fit into so many bytes, and "…" for those that do not; to free(). */
char *strv_join_within(const struct strv *l, size_t bytes, const char *sep);

/*
 * Environment lists hold "KEY=VALUE". Setting replaces in place, so an earlier position is kept
 * and no key stands twice.
 */
void strv_env_set(struct strv *l, const char *key, const char *value);
/* The value in a list as environ(7) is, which may be NULL; NULL: the key is not there. */
const char *strv_env_get(char *const *env, const char *key);

#endif
