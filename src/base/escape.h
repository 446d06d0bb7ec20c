/*
 * Escapes text: of images and servers, so that it cannot control terminals (CVE-2017-5226 and the
 * like), and words for a shell.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#define ESCAPE_SIZE 8 /* for one escaped character and a NUL */

/*
 * Escape the first character or byte of s, which is not empty. out gets itself, or "\x1b" for a
 * control character (C0 and DEL), "\u009b" for one of C1 (U+0080 to U+009F).
 *
 * Returns the number of bytes of s escaped: 1 or 2.
 */
size_t escape_next(const char *s, char out[ESCAPE_SIZE]);

/* Print all of s. */
void escape_print(FILE *out, const char *s);

/* Escape all of s, cut at the end of out, which has room for ESCAPE_SIZE at least. */
void escape_text(const char *s, char *out, size_t room);

/* A word in quotes that sh(1) takes as it is, to free(). */
char *escape_for_sh(const char *word);

/* The same, but one that needs no quotes has none: for people. */
char *escape_for_reader(const char *word);

/* Can a variable of sh(1) have these len bytes as its name? */
int escape_is_sh_name(const char *name, size_t len);
