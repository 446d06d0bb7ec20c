/* Strings that grow, and blanks. For this room's parsers. */
#ifndef MLR_RECIPE_TEXT_H
#define MLR_RECIPE_TEXT_H

#include <stddef.h>

#define TEXT_BLANKS  " \t\v\f\r\n"
#define TEXT_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define TEXT_DIGITS  "0123456789"

struct text {
	char *s; /* NUL-terminated; NULL while empty */
	size_t len, room;
};

#define TEXT_INIT          \
	{                  \
		NULL, 0, 0 \
	}

void text_done(struct text *t);
void text_add(struct text *t, const char *s, size_t len);
void text_put(struct text *t, char c);
/* The string, never NULL, to free(); the struct is empty again. */
char *text_take(struct text *t);

/* The number of blanks at the beginning of s. */
size_t text_blank(const char *s);
/* Cut the blanks at the end. */
void text_chop(char *s);

#endif
