/*
 * Text from images and servers reaches terminals, and must not steer them (CVE-2017-5226's kin).
 */
#ifndef MLR_BASE_ESCAPE_H
#define MLR_BASE_ESCAPE_H

#include <stddef.h>

#define ESCAPE_SIZE 8 /* what stands for one character, and a NUL */

/*
 * Put into out what may be shown for the first character or byte of s, which is not empty: itself,
 * or "\x1b" for a control character (C0 and DEL), "\u009b" for one of C1 (U+0080 to U+009F).
 *
 * Returns how many bytes of s that was: 1 or 2.
 */
size_t escape_next(const char *s, char out[ESCAPE_SIZE]);

/* All of s so, cut where out ends, which has room for ESCAPE_SIZE at least. */
void escape_text(const char *s, char *out, size_t room);

#endif
