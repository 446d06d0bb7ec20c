/* mlrun gpu top: shows what the GPUs and processors do, again and again. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "cli/top_source.h"

#include <poll.h>

#define FIRST_MS    300   /* before the first sample: processor time is measured over it */
#define GRACE_MS    2000  /* NVIDIA's library may take so much longer than the interval */
#define WAKING_MS   10000 /* and, for a log, to wake all GPUs */
#define PATIENCE_MS 60000 /* the same with --count */
#define PLAIN_WIDTH 120

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
	struct screen screen;
	int log;
	pid_t script; /* in a job: the first process of our process group; 0: none */
};

/* --- options ----------------------------------------------------------------- */

static void parse_once(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->once = 1;
	a->count = 1;
}

static const struct option_row options[] = {
	{ "interval", 'i', "SECONDS", 0, "between two samples: 0.1 to 86400 (2)", 1,
		OPT_PARSE(struct args, interval_ms, cli_options_interval) },
	{ "count", 'n', "N", 0, "end after so many samples", 1,
		OPT_COUNT(struct args, count, 1, LONG_MAX - 1) },
	{ "once", 0, 0, 0, "print one sample as text", 1, OPT_CALL(parse_once) },
	{ "log", 0, "FILE", 0,
		"append each sample to a file as CSV; the man page lists the columns", 1,
		OPT(struct args, log) },
	{ "all", 0, 0, 0, "in a job: also the GPUs that are not the job's", 1,
		OPT(struct args, all) },
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.doc = doc,
	.no_store = 1,
	.s.surplus = "expected no argument",
};

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
	TRY(top_source_open(&s->source, s->args.all, (unsigned)s->args.interval_ms, err));
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
	screen_close_keys(&s->screen);
	top_source_close(&s->source);
	if (s->log >= 0)
		close(s->log);
}

/* Returns 0, or -1 when nobody reads any more. */
static int show_picture(struct session *s, int is_first)
{
	if (s->style == SCREEN) {
		auto_free char *text = NULL;
		int width, height;

		screen_open_keys(&s->screen);
		screen_size(&width, &height);
		text = top_view(&s->source.top, width, height);
		screen_draw(text);
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
static void wait_for_news(struct session *s, long long earliest, long long latest)
{
	for (;;) {
		int is_watched = s->source.watch.from >= 0;
		long long until = s->source.arrived.v || !is_watched ? earliest : latest,
			  left = until - mlr_now_ms();
		struct timespec t = { left > 0 ? left / 1000 : 0,
			left > 0 ? left % 1000 * 1000000 : 0 };
		struct pollfd in[] = { { .fd = s->screen.keys, .events = POLLIN },
			{ .fd = s->source.watch.from, .events = POLLIN } };

		if (left <= 0)
			return;
		int n = ppoll(in, ARRAY_LEN(in), &t, &s->screen.waiting);
		if (n > 0 && in[0].revents)
			screen_hear_keys(&s->screen);
		if (n > 0 && in[1].revents && top_source_hear(&s->source) < 0)
			tell_note(s);
		if (screen_shall_end())
			return;
	}
}

/* Returns the exit status, or -errno. */
static int run(struct session *s, struct mlr_error *err)
{
	long long began = mlr_now_ms(), interval = s->args.interval_ms;
	long long earliest = began + FIRST_MS, latest = earliest;

	if (s->args.count)
		latest = began + PATIENCE_MS;
	else if (s->style != SCREEN || s->args.log)
		latest = began + WAKING_MS;
	screen_catch_signals(&s->screen);
	if (s->style == SCREEN)
		screen_open_keys(&s->screen);
	for (long done = 0; s->args.count == 0 || done < s->args.count; done++) {
		int r;

		wait_for_news(s, earliest, latest);
		if (screen_shall_end() || (s->script && is_gone(s->script)))
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
	if (isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) == getpgrp())
		return !a->once && screen_is_there() ? SCREEN : PLAIN;
	return a->log ? SILENT : PLAIN;
}

int cmd_gpu_top(int argc, char **argv)
{
	auto_call(close_session) struct session s = { .args = { .interval_ms = 2000 },
		.source = TOP_SOURCE_INIT,
		.screen = SCREEN_INIT,
		.log = -1 };
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
