/* Splits an instruction's arguments, as BuildKit does. For this room's parser. */
#ifndef MLR_RECIPE_WORDS_H
#define MLR_RECIPE_WORDS_H

#include "base/strv.h"

/* Split at blanks. */
void words_split(const char *text, struct strv *ret);

/* The same, but quotes and escape characters hold words together. They stay. */
void words_quoted(const char *text, char escape, struct strv *ret);

/*
 * Take the flags, "--name" or "--name=value", from the beginning, without their quotes and escape
 * characters. A "--" ends them.
 *
 * Returns what follows them.
 */
const char *words_flags(const char *text, char escape, struct strv *ret);

/* Read a JSON array of strings. Returns 1, 0 if the text is something else, or -EINVAL if the array
 * has members that are no strings. */
int words_json(const char *text, struct strv *ret);

#endif
