#include "cli/top_screen.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The screen that programs have for themselves, without a cursor; long lines are cut. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

#define HOME      "\033[H"
#define REST      "\033[J" /* nothing below */
#define LINE_REST "\033[K"

static void say(const char *text)
{
	(void)file_write_all(STDOUT_FILENO, text, strlen(text));
}

int top_screen_is_ours(void)
{
	return isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

void top_screen_open(struct top_screen *s)
{
	struct termios raw;

	s->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0 ? STDIN_FILENO
										   : -1;
	if (s->keys >= 0) {
		raw = s->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ^C and ^Z stay signals */
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	}
	say(ENTER);
	s->is_open = 1;
}

void top_screen_close(struct top_screen *s)
{
	if (!s->is_open)
		return;
	say(LEAVE);
	if (s->keys >= 0)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
	s->is_open = 0;
}

void top_screen_size(int *width, int *height)
{
	struct winsize w;
	int is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0;

	*width = is_known ? w.ws_col : 80;
	*height = is_known ? w.ws_row : 24;
}

/* In one write, else it flickers. The last line gets no newline, which would scroll. */
void top_screen_draw(const char *text)
{
	size_t lines = 1, len = 0;
	auto_free char *out = NULL;

	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	out = xmalloc(
		strlen(HOME) + strlen(text) + lines * (strlen(LINE_REST) + 1) + strlen(REST) + 1);
	strcpy(out, HOME);
	len = strlen(out);
	for (const char *s = text; *s; s++) {
		if (*s != '\n') {
			out[len++] = *s;
			continue;
		}
		strcpy(out + len, LINE_REST);
		len += strlen(LINE_REST);
		if (s[1]) {
			out[len++] = '\r';
			out[len++] = '\n';
		}
	}
	strcpy(out + len, REST);
	say(out);
}
