#include "cli/ask.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <termios.h>

#define LINE_MAX_ 4096 /* bytes that a terminal gives at once (termios(3), canonical mode) */

static void wake(int sig)
{
	(void)sig; /* only to end read(2) */
}

static int read_line(int tty, char **ret, struct mlr_error *err)
{
	char line[LINE_MAX_ + 1];
	ssize_t n = read(tty, line, LINE_MAX_);

	if (n < 0 && errno != EINTR)
		return mlr_fail_errno(err, "read from the terminal");
	if (n <= 0)
		return mlr_fail(err, ECANCELED, "interrupted");
	line[n - (line[n - 1] == '\n')] = '\0';
	*ret = xstrdup(line);
	explicit_bzero(line, sizeof(line));
	return 0;
}

/* The echo must come back whatever ends the question. */
static int ask(const char *prompt, int echo, char **ret, struct mlr_error *err)
{
	auto_close int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction woken = { .sa_handler = wake }, was[ARRAY_LEN(signals)];
	struct termios before, quiet;
	int r;

	if (tty < 0 || tcgetattr(tty, &before) < 0)
		return mlr_fail(err, ENXIO, "there is no terminal to ask on");
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		sigaction(signals[i], &woken, &was[i]);
	/* Whoever sees the question may answer it: the echo is off by then, and nothing is
	 * dropped. */
	if (!echo)
		tcsetattr(tty, TCSAFLUSH, &quiet);
	file_write_all(tty, prompt, strlen(prompt));
	r = read_line(tty, ret, err);
	if (!echo) {
		tcsetattr(tty, TCSAFLUSH, &before);
		file_write_all(tty, "\n", 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		sigaction(signals[i], &was[i], NULL);
	return r;
}

int ask_line(const char *prompt, char **ret, struct mlr_error *err)
{
	return ask(prompt, 1, ret, err);
}

int ask_secret(const char *prompt, char **ret, struct mlr_error *err)
{
	return ask(prompt, 0, ret, err);
}
