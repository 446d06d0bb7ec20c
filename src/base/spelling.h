/*
 * Finds the known word that a misspelt one is closest to, for hints.
 *
 *   struct spelling s = spelling_of(word, strlen(word));
 *   for (each known word)
 *           spelling_try(&s, known);
 *   if (s.near) …
 */
#pragma once

#include <stddef.h>

struct spelling {
	const char *word; /* borrowed */
	size_t len;
	size_t best;
	const char *near; /* the closest known word, the first of equals; NULL if none is close.
			   * Borrowed from spelling_try() */
};

struct spelling spelling_of(const char *word, size_t len);
void spelling_try(struct spelling *s, const char *known);
