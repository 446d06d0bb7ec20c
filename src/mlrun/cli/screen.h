/*
 * What is shown again and again, as top(1) does: the terminal and its keys, the signals that end
 * it. One such view a process.
 */
#pragma once

#include "base/base.h"

#include <termios.h>

struct screen {
	int keys;              /* the terminal for keys; -1: none */
	struct termios before; /* its settings before */
	sigset_t waiting;      /* for ppoll(2): signals arrive only then */
};

#define SCREEN_INIT        \
	{                  \
		.keys = -1 \
	}

/* Is stdout a terminal on which a view can be drawn over the last one, and ours to draw on? */
int screen_is_there(void);

/* From now on SIGINT, SIGTERM and SIGHUP, unless ignored, ask for an end, and wait until
 * ppoll(2) with s->waiting. */
void screen_catch_signals(struct screen *s);

/* Has a signal or a key asked for an end? */
int screen_shall_end(void);

/* Read keys without Enter and echo; again after ^Z and fg. ^C and ^Z stay signals. */
void screen_open_keys(struct screen *s);
void screen_close_keys(struct screen *s);

/* Read the keys that were pressed: q asks for an end. */
void screen_hear_keys(struct screen *s);

/* The size of the terminal, without its last line; 80x23 if unknown. */
void screen_size(int *width, int *height);

/* Draw lines over the last view, cut to the terminal's size. A UTF-8 character is a column. */
void screen_draw(const char *text);
