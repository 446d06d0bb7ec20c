/* Strings that grow, and blanks. */
#pragma once

#include "base/base.h"

#define TEXT_BLANKS  " \t\v\f\r\n"
#define TEXT_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define TEXT_DIGITS  "0123456789"

struct text {
	char *s; /* NUL-terminated; NULL while empty */
	size_t len, room;
};

void text_done(struct text *t);
void text_add(struct text *t, const char *s, size_t len);
void text_put(struct text *t, char c);
/* The string, never NULL, to free(); the struct is empty again. */
char *text_take(struct text *t);

/* The number of blanks at the beginning of s. */
size_t text_blank(const char *s);
/* Cut the blanks at the end. */
void text_chop(char *s);

/* Splits an instruction's arguments, as BuildKit does. */

/* Split at blanks. */
void text_words(const char *text, struct strv *ret);

/* The same, but quotes and escape characters hold words together. They stay. */
void text_quoted(const char *text, char escape, struct strv *ret);

/*
 * Take the flags, "--name" or "--name=value", from the beginning, without their quotes and escape
 * characters. A "--" ends them.
 *
 * Returns what follows them.
 */
const char *text_flags(const char *text, char escape, struct strv *ret);

/* Read a JSON array of strings. Returns 1, 0 if the text is something else, or -EINVAL if the array
 * has members that are no strings. */
int text_json(const char *text, struct strv *ret);
