/*
 * Matches the patterns of ${name#pattern} and its kin: '?' is any character, '*' any number of
 * them, '\' takes the next one literally (POSIX.1-2017, XCU 2.6.2, without bracket expressions,
 * which the Dockerfile reference has not).
 */
#ifndef MLR_RECIPE_PATTERN_H
#define MLR_RECIPE_PATTERN_H

#include <sys/types.h>

/* The length of the shortest or longest beginning of s that matches, or -1. */
ssize_t pattern_begin(const char *pattern, const char *s, int longest);
/* The length of the shortest or longest end of s that matches, or -1. */
ssize_t pattern_end(const char *pattern, const char *s, int longest);

/* Is the pattern valid? An escape must be followed by '*', '?', '\', '/' or '}'. */
int pattern_is_valid(const char *pattern);

#endif
