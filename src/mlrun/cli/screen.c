#include "cli/screen.h"

#include "base/proc.h"
#include "cli/cli.h"

#include <poll.h>
#include <sys/ioctl.h>

/* Sequences of ECMA-48, which every current terminal understands. */
#define HOME       "\033[H"
#define CLEAR_LINE "\033[K" /* to the end of the line */
#define CLEAR_REST "\033[J" /* and all lines below */

int screen_is_there(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) == getpgrp() && term &&
		strcmp(term, "dumb") != 0;
}

/* --- signals ----------------------------------------------------------------- */

static volatile sig_atomic_t end_asked;

static void note_signal(int sig)
{
	end_asked = 1;
}

static void catch_signals(struct screen *s)
{
	sigset_t ends;

	signal_catch_ends(note_signal, 0);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, &s->waiting);
	sigdelset(&s->waiting, SIGINT);
	sigdelset(&s->waiting, SIGTERM);
	sigdelset(&s->waiting, SIGHUP);
}

int screen_shall_end(void)
{
	return end_asked;
}

/* --- keys ---------------------------------------------------------------------- */

static void open_keys(struct screen *s)
{
	struct termios raw;

	if (s->keys < 0 && isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0)
		s->keys = STDIN_FILENO;
	if (s->keys < 0)
		return;
	raw = s->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(s->keys, TCSADRAIN, &raw);
}

void screen_close_keys(struct screen *s)
{
	if (s->keys >= 0)
		tcsetattr(s->keys, TCSADRAIN, &s->before);
	s->keys = -1;
}

static void hear_keys(struct screen *s)
{
	char keys[64];
	ssize_t n = read(s->keys, keys, sizeof(keys));

	if (n <= 0)
		screen_close_keys(s);
	else if (memchr(keys, 'q', (size_t)n))
		end_asked = 1;
}

/* --- drawing ------------------------------------------------------------------- */

void screen_size(int *width, int *height)
{
	struct winsize w;
	int is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 1;

	*width = is_known ? w.ws_col : 80;
	*height = (is_known ? w.ws_row : 24) - 1;
}

/* The bytes of a line that so many columns show. */
static int fitting(const char *line, const char *end, int columns)
{
	const char *s = line;

	for (; s < end; s++)
		if (((unsigned char)*s & 0xc0) != 0x80 && columns-- == 0)
			break;
	return (int)(s - line);
}

static void draw(const char *text)
{
	int width, height;

	screen_size(&width, &height);
	fputs(HOME, stdout);
	for (const char *line = text, *end; *line && height > 0; line = end + 1, height--) {
		end = strchr(line, '\n');
		printf(CLEAR_LINE "%.*s\n", fitting(line, end, width), line);
	}
	fputs(CLEAR_REST, stdout);
}

/* --- again and again ------------------------------------------------------------ */

void screen_begin(struct screen *s, int is_drawn)
{
	s->is_drawn = is_drawn;
	catch_signals(s);
	if (is_drawn)
		open_keys(s);
}

int screen_show(struct screen *s, int is_first, const char *text)
{
	if (s->is_drawn) {
		open_keys(s);
		draw(text);
	} else {
		printf("%s%s", is_first ? "" : "\n", text);
	}
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	cli_stdout_failed(errno);
	return -1;
}

int screen_wait(struct screen *s, int other, int64_t until)
{
	int64_t left;

	while (!screen_shall_end() && (left = until - mlr_now_ms()) > 0) {
		struct timespec t = { left / 1000, left % 1000 * 1000000 };
		struct pollfd in[] = { { .fd = s->keys, .events = POLLIN },
			{ .fd = other, .events = POLLIN } };
		int n = ppoll(in, ARRAY_LEN(in), &t, &s->waiting);

		if (n > 0 && in[0].revents)
			hear_keys(s);
		if (n > 0 && in[1].revents)
			return 1;
	}
	return 0;
}
