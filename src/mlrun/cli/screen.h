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
	int is_drawn;
};

#define SCREEN_INIT        \
	{                  \
		.keys = -1 \
	}

/* Is stdout a terminal on which a view can be drawn over the last one, and ours to draw on? */
int screen_is_there(void);

/* From now on SIGINT, SIGTERM and SIGHUP, unless ignored, and the key q ask for an end. If it is
 * drawn, keys are read without Enter and echo, also after ^Z and fg. ^C and ^Z stay signals. */
void screen_begin(struct screen *s, int is_drawn);
void screen_close_keys(struct screen *s);

/* Has a signal or a key asked for an end? */
int screen_shall_end(void);

/* The size of the terminal, without its last line; 80x23 if unknown. */
void screen_size(int *width, int *height);

/* Draw lines over the last view, cut to the terminal's size, where a UTF-8 character is a column;
 * or print them below it. Returns 0, or -1 when nobody reads any more. */
int screen_show(struct screen *s, int is_first, const char *text);

/* Wait until a time (mlr_now_ms()) or an end: 0; or until another descriptor has news: 1. */
int screen_wait(struct screen *s, int other, int64_t until);
