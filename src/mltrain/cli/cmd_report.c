/* mltrain report: makes a page about runs from their logs. */
#include "cli/mltrain.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct args {
	char **logs; /* [n] */
	size_t n;
	const char *output;
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "the page; - is standard output (report.html)", 1 }, { 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'o':
		a->output = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (a->n == RUNS_MAX)
			argp_error(state, "more than %d logs", RUNS_MAX);
		a->logs[a->n++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->n)
			argp_error(state, "which log? give what train --log FILE wrote");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = { options, parse, "LOG...",
	"Make one HTML page of the runs in logs: curves, mistakes of the network, and use of time. It "
	"compares several runs." };

/* Make the page's text, to free(). */
static char *page_of(const struct runs *runs, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	report_write(f, runs);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/* Refuse to overwrite a log with its page, whatever the name. */
static int check_output(const struct args *a, struct mlr_error *err)
{
	struct stat out;

	if (strcmp(a->output, "-") == 0 || stat(a->output, &out) < 0 || !S_ISREG(out.st_mode))
		return 0;
	for (size_t i = 0; i < a->n; i++)
		if (file_is_same(a->output, a->logs[i]))
			return mlr_fail(err, EEXIST, "'%s' is one of the logs, not overwriting it",
				a->output);
	return 0;
}

static int write_to_stdout(const char *text, size_t len, struct mlr_error *err)
{
	int r = file_write_all(STDOUT_FILENO, text, len);

	return r < 0 ? mlr_fail(err, -r, "write to stdout: %s", strerror(-r)) : 0;
}

static int put_page(const struct args *a, const char *text, size_t len, struct mlr_error *err)
{
	if (strcmp(a->output, "-") == 0)
		return write_to_stdout(text, len, err);
	return file_put(a->output, text, len, 0666, err);
}

static int run(const struct args *a, struct mlr_error *err)
{
	auto_call(runs_done) struct runs runs = RUNS_INIT;
	auto_free char *text = NULL;
	size_t len;
	int r;

	r = check_output(a, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < a->n; i++) {
		r = runs_read(&runs, a->logs[i], err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < runs.n_notes; i++)
		mlr_warning("%s", runs.notes[i]);
	text = page_of(&runs, &len);
	if (!text)
		return mlr_fail(err, ENOMEM, "no memory for the page");
	return put_page(a, text, len, err);
}

int cmd_report(int argc, char **argv)
{
	char *logs[RUNS_MAX];
	struct args a = { .logs = logs, .output = "report.html" };
	struct mlr_error err = MLR_ERROR_INIT;
	char name[] = "mltrain report";

	argv[0] = name;
	arg_check_spelling(argv, options);
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
