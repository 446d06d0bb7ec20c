/* mltrain report: makes a page about runs from their logs. */
#include "cli/mltrain.h"

#include "report/report.h"

struct args {
	struct strv logs;
	const char *output;
};

static const struct option_row options[] = {
	{ "output", 'o', "FILE", 0, "the page; - is standard output (report.html)", 1,
		OPT(struct args, output) },
	{ 0 },
};

static void check(void *args, struct argp_state *state)
{
	if (((struct args *)args)->logs.n > RUNS_MAX)
		argp_error(state, "more than %d logs", RUNS_MAX);
}

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "LOG...",
	.doc = "Make one HTML page of the runs in logs: curves, mistakes of the network, and use of time; or of "
	       "the results of load: latencies and rates. It compares several runs.",
	.operands = { OPT(struct args, logs) },
	.needed = 1,
	.missing = "which log? give what train --log FILE or load --json FILE wrote",
	.check = check,
};

/* The content of the page: runs of training, or of load. */
struct shown {
	struct runs runs;
	struct traffic traffic;
};

static void shown_done(struct shown *s)
{
	runs_done(&s->runs);
	traffic_done(&s->traffic);
}

/* Make the page's text, to free(). */
static char *page_of(const struct shown *s, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	if (s->traffic.n)
		traffic_write(f, &s->traffic);
	else
		report_write(f, &s->runs);
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
	for (size_t i = 0; i < a->logs.n; i++)
		if (file_is_same(a->output, a->logs.v[i]))
			return mlr_fail(err, EEXIST, "'%s' is one of the logs, not overwriting it",
				a->output);
	return 0;
}

/* Read one file, which tells what it is. */
static int read_file(struct shown *s, const char *path, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len;
	int r;

	TRY(file_read(AT_FDCWD, path, RUNS_LOG_MAX, &text, &len, err));
	if (!traffic_is(text, len))
		r = runs_parse(&s->runs, text, len, path, err);
	else if (len > TRAFFIC_BYTES_MAX)
		r = mlr_fail(
			err, EFBIG, "'%s' has more than %zu MB", path, TRAFFIC_BYTES_MAX >> 20);
	else
		r = traffic_parse(&s->traffic, text, len, path, err);
	if (r == 0 && s->runs.n && s->traffic.n)
		r = mlr_fail(err, EINVAL,
			"'%s': a page shows runs of training or of load, not both", path);
	return r;
}

static int run(const struct args *a, struct mlr_error *err)
{
	auto_call(shown_done) struct shown shown = { { 0 }, { 0 } };
	auto_free char *text = NULL;
	size_t len;

	TRY(check_output(a, err));
	for (size_t i = 0; i < a->logs.n; i++)
		TRY(read_file(&shown, a->logs.v[i], err));
	traffic_tell_apart(&shown.traffic);
	for (size_t i = 0; i < shown.runs.n_notes; i++)
		mlr_warning("%s", shown.runs.notes[i]);
	text = page_of(&shown, &len);
	if (!text)
		return mlr_fail(err, ENOMEM, "no memory for the page");
	if (strcmp(a->output, "-") != 0)
		return file_put(a->output, text, len, 0666, err);
	return mlr_result(err, file_write_all(STDOUT_FILENO, text, len), "write to stdout");
}

int cmd_report(int argc, char **argv)
{
	struct args a = { .output = "report.html" };
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	options_parse("mltrain report", argc, argv, &syntax, &a);
	status = run(&a, &err) < 0 ? main_fail(&err) : 0;
	strv_done(&a.logs);
	return status;
}
