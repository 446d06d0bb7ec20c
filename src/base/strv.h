/*
 * Lists of strings: an array that ends with NULL, like argv and environ, and its length. A zeroed
 * struct is an empty list whose v is NULL; strv_done() frees strings and array.
 */
#pragma once

#include <stddef.h>

struct strv {
	char **v; /* n strings and a final NULL, owned; NULL before the first */
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
/* Append copies of several strings. */
#define strv_add_words(l, ...) strv_add_array((l), (const char *const[]){ __VA_ARGS__, NULL })
void strv_add_array(struct strv *l, const char *const *words);
/* Append s itself; the list then owns it. */
void strv_take(struct strv *l, char *s);
void strv_addf(struct strv *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Add copies of all of another list. */
void strv_add_all(struct strv *to, const struct strv *from);
/* Does the list contain s? */
int strv_has(const struct strv *l, const char *s);
/* Sort by bytes, as strcmp(3). */
void strv_sort(struct strv *l);
/* Does a list that is sorted so contain s? */
int strv_has_sorted(const struct strv *l, const char *s);
/* The array itself, never NULL, for execve(2) and printing: an empty list gives {NULL}. */
char *const *strv_argv(const struct strv *l);

/* Join the first max strings with sep between them; to free(). */
char *strv_join(const struct strv *l, size_t max, const char *sep);
/* Join the first strings that fit into so many bytes, and "…" if some do not; to free(). */
char *strv_join_within(const struct strv *l, size_t bytes, const char *sep);

/*
 * For lists of "KEY=VALUE". Setting a key replaces it in place, so it keeps its position and
 * appears once.
 */
void strv_env_set(struct strv *l, const char *key, const char *value);
/* A key's value in a list like environ(7), which may be NULL; NULL if the key is missing. */
const char *strv_env_get(char *const *env, const char *key);
