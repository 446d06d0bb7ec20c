/*
 * Which of the known words was meant by one that is not known: for hints.
 *
 *   struct spelling s = spelling_of(word, strlen(word));
 *   for (each known word)
 *           spelling_try(&s, known);
 *   if (s.near) …
 */
#ifndef MLR_BASE_SPELLING_H
#define MLR_BASE_SPELLING_H

#include <stddef.h>

struct spelling {
	const char *word; /* borrowed */
	size_t len;
	size_t best;
	const char *near; /* the known word that is spelled most like it, the first of equals; NULL
			     when none is near. Borrowed from spelling_try() */
};

struct spelling spelling_of(const char *word, size_t len);
void spelling_try(struct spelling *s, const char *known);

#endif
