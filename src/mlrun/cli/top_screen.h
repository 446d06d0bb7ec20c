/*
 * A terminal that `mlrun gpu top` has to itself: the alternate screen, no cursor, keys without
 * Enter. Everything is as it was after top_screen_close(). Sequences are those of ECMA-48 and
 * xterm, which every terminal of today has: no database of terminals is read.
 */
#ifndef MLR_CLI_TOP_SCREEN_H
#define MLR_CLI_TOP_SCREEN_H

#include <termios.h>

struct top_screen {
	int is_open;
	int keys; /* descriptor that keys come from; -1: none */
	struct termios before;
};

#define TOP_SCREEN_INIT   \
	{                 \
		0, -1,    \
		{         \
			0 \
		}         \
	}

/* Is standard output a terminal, and this process in its foreground? */
int top_screen_is_ours(void);

void top_screen_open(struct top_screen *s);
void top_screen_close(struct top_screen *s);

/* Columns and lines; 80 and 24 where the terminal does not say. */
void top_screen_size(int *width, int *height);

/* Show lines in place of those that are there. */
void top_screen_draw(const char *text);

#endif
