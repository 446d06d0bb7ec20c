/*
 * Expands variables in a word of a recipe and removes its quotes: $name, ${name}, and the forms
 *
 *   ${name-word} ${name:-word}   word if name is unset, with ':' also if it is empty
 *   ${name+word} ${name:+word}   word unless name is unset, with ':' or empty
 *   ${name?word} ${name:?word}   fails with word
 *   ${name#pattern} ${name##pattern} ${name%pattern} ${name%%pattern}   without that beginning or
 * end
 *   ${name/pattern/word} ${name//pattern/word}   with the first match, or all, replaced
 *
 * Single quotes keep everything; in double quotes the escape character precedes '"', '$' or itself;
 * elsewhere it takes any character literally. Source: the Dockerfile reference, "Environment
 * replacement".
 */
#pragma once

#include "base/base.h"

/* A variable's value, or NULL if it is unset; remains the callee's. */
typedef const char *(*expand_get_fn)(void *ctx, const char *name);

enum expand_flags {
	EXPAND_KEEP_QUOTES = 1,  /* quotes hold words together, and stay */
	EXPAND_KEEP_ESCAPES = 2, /* so do escape characters */
	EXPAND_NO_QUOTES = 4,    /* quotes are ordinary characters */
	EXPAND_KEEP_UNSET = 8,   /* a variable that is unset stays as it is written */
};

#define EXPAND_MAX ((size_t)1 << 20) /* bytes of a result */

struct expand {
	char escape; /* '\\' or '`' */
	unsigned flags;
	expand_get_fn get; /* NULL: everything is unset */
	void *ctx;
};

/* Expand to one word, to free(). Returns 0; -EINVAL for a syntax error or what ${name?} demands;
 * -E2BIG. */
int expand_word(const struct expand *e, const char *text, char **ret, struct mlr_error *err);

/* Expand, and then split at blanks that are not quoted, also at those of variables' values: words
 * are appended to ret. */
int expand_words(const struct expand *e, const char *text, struct strv *ret, struct mlr_error *err);
