/* mlrun gpu top: shows what the GPUs and processors do, again and again. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/top_source.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define FIRST_MS    300   /* before the first sample: processor time is measured over it */
#define GRACE_MS    2000  /* NVIDIA's library may take so much longer than the interval */
#define WAKING_MS   10000 /* and, for a log, to wake all GPUs */
#define PATIENCE_MS 60000 /* the same with --count */
#define PLAIN_WIDTH 120

/* Sequences of ECMA-48, which every current terminal understands. */
#define HOME       "\033[H"
#define CLEAR_LINE "\033[K" /* to the end of the line */
#define CLEAR_REST "\033[J" /* and all lines below */

static const char doc[] =
	"Show what this machine's GPUs, or the job's, and its processors do, again and again. q or "
	"^C ends it.\v"
	"Without a terminal the same comes as text, once each interval; with --log then nothing but the "
	"log. In a job script:\n\n  mlrun gpu top --log gpu.csv &";

struct args {
	long interval_ms, count; /* count 0: endless */
	const char *log;
	int once, all;
};

enum style { SILENT, PLAIN, SCREEN };

struct session {
	struct args args;
	enum style style;
	struct top_source source;
	int keys;              /* the terminal for keys; -1: none */
	struct termios before; /* its settings before */
	int log;
	pid_t script; /* in a job: the first process of our process group; 0: none */
};

/* --- options ----------------------------------------------------------------- */

static void parse_interval(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= 0.1 && v <= 86400))
		argp_error(state, "--interval takes seconds from 0.1 to 86400, not '%s'", arg);
	a->interval_ms = (long)(v * 1000 + 0.5);
}

static void parse_count(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->count = cli_options_number(arg, 1, LONG_MAX - 1);
	if (a->count < 0)
		argp_error(state, "--count takes a number from 1 on, not '%s'", arg);
}

static void parse_once(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	(void)arg;
	(void)state;
	a->once = 1;
	a->count = 1;
}

static const struct cli_option options[] = {
	{ "interval", 'i', "SECONDS", 0, "between two samples: 0.1 to 86400 (2)", 1,
		CLI_TO_CALL(parse_interval) },
	{ "count", 'n', "N", 0, "end after so many samples", 1, CLI_TO_CALL(parse_count) },
	{ "once", 0, 0, 0, "print one sample as text", 1, CLI_TO_CALL(parse_once) },
	{ "log", 0, "FILE", 0,
		"append each sample to a file as CSV; the man page lists the columns", 1,
		CLI_TO(struct args, log) },
	{ "all", 0, 0, 0, "in a job: also the GPUs that are not the job's", 1,
		CLI_TO(struct args, all) },
	{ 0 },
};
static const struct cli_syntax syntax = {
	.options = options,
	.doc = doc,
	.no_store = 1,
	.surplus = "expected no argument",
};

/* --- signals ----------------------------------------------------------------- */

static volatile sig_atomic_t end_asked;

static void note_signal(int sig)
{
	(void)sig;
	end_asked = 1;
}

/* Signals arrive only during ppoll(2); those that the caller ignores stay ignored. */
static void catch_signals(sigset_t *while_waiting)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = note_signal }, was;
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_LEN(caught); i++) {
		if (sigaction(caught[i], NULL, &was) < 0 || was.sa_handler == SIG_IGN)
			continue;
		sigaction(caught[i], &a, NULL);
		sigaddset(&blocked, caught[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, while_waiting);
	for (size_t i = 0; i < ARRAY_LEN(caught); i++)
		sigdelset(while_waiting, caught[i]);
}

/* --- keys ---------------------------------------------------------------------- */

/* Read keys without Enter and echo, also after ^Z and fg; ^C and ^Z stay signals. */
static void open_keys(struct session *s)
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

static void close_keys(struct session *s)
{
	if (s->keys >= 0)
		tcsetattr(s->keys, TCSADRAIN, &s->before);
	s->keys = -1;
}

static void hear_keys(struct session *s)
{
	char keys[64];
	ssize_t n = read(s->keys, keys, sizeof(keys));

	if (n <= 0)
		close_keys(s);
	else if (memchr(keys, 'q', (size_t)n))
		end_asked = 1;
}

/* --- what is shown ------------------------------------------------------------- */

/*
 * Has the job's script, the first process of our process group, ended? Then a process that it left
 * in the background ends too. Batch systems that find a job's processes by their parents (Slurm's
 * proctrack/linuxproc) do not end it.
 */
static int is_gone(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Missing samples are explained in a line of the view, or else in a warning. */
static void tell_note(const struct session *s)
{
	if (s->style == SILENT)
		mlr_warning("gpu top: %s", s->source.top.note);
}

static int open_session(struct session *s, struct mlr_error *err)
{
	int r = top_source_open(&s->source, s->args.all, (unsigned)s->args.interval_ms, err);

	if (r < 0)
		return r;
	s->script = s->source.is_job && !is_gone(getpgrp()) ? getpgrp() : 0;
	if (s->args.log) {
		s->log = top_log_open(s->args.log, err);
		if (s->log < 0)
			return s->log;
	}
	if (s->source.top.note)
		tell_note(s);
	return 0;
}

static void close_session(struct session *s)
{
	close_keys(s);
	top_source_close(&s->source);
	if (s->log >= 0)
		close(s->log);
}

/* Draw over the last view. */
static void draw(const struct top *t)
{
	struct winsize w;
	int is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 1;
	auto_free char *text =
		top_view(t, is_known ? w.ws_col : 80, (is_known ? w.ws_row : 24) - 1);

	fputs(HOME, stdout);
	for (const char *line = text, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		printf(CLEAR_LINE "%.*s\n", (int)(end - line), line);
	}
	fputs(CLEAR_REST, stdout);
}

/* Returns 0, or -1 when nobody reads any more. */
static int show_picture(struct session *s, int is_first)
{
	if (s->style == SCREEN) {
		open_keys(s);
		draw(&s->source.top);
	} else if (s->style == PLAIN) {
		auto_free char *text = top_view(&s->source.top, PLAIN_WIDTH, 0);

		printf("%s%s", is_first ? "" : "\n", text);
	}
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	cli_stdout_failed(errno);
	return -1;
}

/* --- waiting ------------------------------------------------------------------- */

/*
 * Wait for samples, at least until earliest and at most until latest, or until an end is requested.
 */
static void wait_for_news(
	struct session *s, long long earliest, long long latest, const sigset_t *signals)
{
	for (;;) {
		int is_watched = s->source.watch.from >= 0;
		long long until = s->source.arrived.v || !is_watched ? earliest : latest,
			  left = until - mlr_now_ms();
		struct timespec t = { left > 0 ? left / 1000 : 0,
			left > 0 ? left % 1000 * 1000000 : 0 };
		struct pollfd in[] = { { .fd = s->keys, .events = POLLIN },
			{ .fd = s->source.watch.from, .events = POLLIN } };

		if (left <= 0)
			return;
		int n = ppoll(in, ARRAY_LEN(in), &t, signals);
		if (n > 0 && in[0].revents)
			hear_keys(s);
		if (n > 0 && in[1].revents && top_source_hear(&s->source) < 0)
			tell_note(s);
		if (end_asked)
			return;
	}
}

/* Returns the exit status, or -errno. */
static int run(struct session *s, struct mlr_error *err)
{
	long long began = mlr_now_ms(), interval = s->args.interval_ms;
	long long earliest = began + FIRST_MS, latest = earliest;
	sigset_t while_waiting;

	if (s->args.count)
		latest = began + PATIENCE_MS;
	else if (s->style != SCREEN || s->args.log)
		latest = began + WAKING_MS;
	catch_signals(&while_waiting);
	if (s->style == SCREEN)
		open_keys(s);
	for (long done = 0; s->args.count == 0 || done < s->args.count; done++) {
		int r;

		wait_for_news(s, earliest, latest, &while_waiting);
		if (end_asked || (s->script && is_gone(s->script)))
			break;
		top_source_next(&s->source);
		r = s->log >= 0 ? top_log_add(s->log, s->args.log, &s->source.top, err) : 0;
		if (r < 0)
			return r;
		if (show_picture(s, done == 0) < 0)
			return CLI_FAILED;
		if (s->source.watch.from >= 0)
			earliest = 0; /* the library sets the pace */
		else
			earliest = earliest + interval > mlr_now_ms() ? earliest + interval
								      : mlr_now_ms();
		latest = mlr_now_ms() + interval + GRACE_MS;
	}
	return 0;
}

static enum style choose_style(const struct args *a)
{
	const char *term = getenv("TERM");

	if (isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) == getpgrp())
		return a->once || !term || strcmp(term, "dumb") == 0 ? PLAIN : SCREEN;
	return a->log ? SILENT : PLAIN;
}

int cmd_gpu_top(int argc, char **argv)
{
	auto_call(close_session) struct session s = {
		.args = { .interval_ms = 2000 }, .source = TOP_SOURCE_INIT, .keys = -1, .log = -1
	};
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	cli_options_parse(argc, argv, &syntax, &s.args);
	s.style = choose_style(&s.args);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* one write(2) for a view, else it flickers */
	r = open_session(&s, &err);
	if (r == 0)
		r = run(&s, &err);
	if (r >= 0)
		return r;
	return cli_fail_at(&err, "gpu top");
}
