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

#define STRV_INIT  { NULL, 0 }
#define auto_strv  __attribute__((cleanup(strv_done)))

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

/*
 * Environment lists hold "KEY=VALUE". Setting replaces in place, so an earlier position is kept
 * and no key stands twice.
 */
void strv_env_set(struct strv *l, const char *key, const char *value);

#endif
