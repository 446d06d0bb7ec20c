/* mltrain load: puts load on an HTTP server. */
#include "base/proc.h"
#include "cli/mltrain.h"
#include "config.h"
#include "load/connection.h"
#include "load/load.h"
#include "report/report.h"

#include <argp.h>
#include <math.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>

/* The command line of mltrain load. */

struct load_args {
	const char *url, *json, *output, *name, *cacert, *token_file, *images, *method;
	struct stages stages;
	double rate, seconds; /* 0: not given */
	unsigned users, connections, connections_max, known;
	double think_s, timeout_s, cache_rate;
	uint64_t seed;
	double abort_s; /* -1: not given */
	int quiet, verify, close;
	struct strv headers, also;
	struct request_body *bodies; /* [n_bodies], owned */
	size_t n_bodies;
	struct check checks[CHECKS_MAX];
	size_t n_checks;
	struct threshold thresholds[THRESHOLDS_MAX];
	size_t n_thresholds;
};

#define BODY_MAX    ((size_t)64 << 20)
#define CONNECTIONS 500 /* at once: where only 1024 files may be open, they fit */

static const char *const bools[] = { "false", "true", NULL };

static void parse_think(void *field, char *arg, struct argp_state *state)
{
	if (stages_duration(arg, strlen(arg), field) < 0)
		argp_error(state, "--think '%s' is not a time such as 30s, 1m30s or 500ms", arg);
}

static void parse_abort(void *field, char *arg, struct argp_state *state)
{
	if (stages_duration(arg ? arg : "0s", arg ? strlen(arg) : 2, field) < 0)
		argp_error(state, "--abort-on-fail '%s' is not a time such as 30s or 500ms", arg);
}

static void parse_stages(void *args, char *text, struct argp_state *state)
{
	struct load_args *a = args;
	struct mlr_error err = MLR_ERROR_INIT;

	if (stages_parse(text, &a->stages, &err) < 0)
		argp_error(state, "--stages '%s': %s", text, err.text);
}

static void parse_body(void *args, char *text, struct argp_state *state)
{
	struct load_args *a = args;
	struct mlr_error err = MLR_ERROR_INIT;
	struct request_body b = { NULL, strlen(text) };

	if (*text != '@')
		b.bytes = xstrdup(text);
	else if (file_read(AT_FDCWD, text + 1, BODY_MAX, &b.bytes, &b.len, &err) < 0)
		argp_error(state, "--body: %s", err.text);
	*xadd(a->bodies, a->n_bodies) = b;
}

static void parse_check(void *args, char *text, struct argp_state *state)
{
	struct load_args *a = args;
	struct mlr_error err = MLR_ERROR_INIT;

	if (a->n_checks == CHECKS_MAX)
		argp_error(state, "more than %d checks", CHECKS_MAX);
	if (check_parse(text, &a->checks[a->n_checks], &err) < 0)
		argp_error(state, "--check '%s': %s", text, err.text);
	a->n_checks++;
}

static void parse_threshold(void *args, char *text, struct argp_state *state)
{
	struct load_args *a = args;
	struct mlr_error err = MLR_ERROR_INIT;

	if (a->n_thresholds == THRESHOLDS_MAX)
		argp_error(state, "more than %d thresholds", THRESHOLDS_MAX);
	if (threshold_parse(text, &a->thresholds[a->n_thresholds], &err) < 0)
		argp_error(state, "--threshold '%s': %s", text, err.text);
	a->n_thresholds++;
}

/* Which options go together, and what those that were not given are. */
static void check(void *args, struct argp_state *state)
{
	struct load_args *a = args;
	int closed = a->stages.n || a->users;

	if (a->rate > 0 && closed)
		argp_error(state, "--rate is another kind of load than --vus and --stages");
	if (a->stages.n && (a->users || a->seconds > 0))
		argp_error(state, "--stages says the users and the time, not --vus or --duration");
	if (!(a->rate > 0) && (a->connections || a->connections_max))
		argp_error(state,
			"--connections and --max-connections go with --rate: a virtual "
			"user has one connection");
	if (a->rate > 0 && a->think_s > 0)
		argp_error(state, "--think goes with users, not with --rate");
	if (a->json && a->output && strcmp(a->json, "-") == 0 && strcmp(a->output, "-") == 0)
		argp_error(state, "--json and --output can't both be standard output");
	if (!a->connections_max)
		a->connections_max = a->connections > CONNECTIONS ? a->connections : CONNECTIONS;
	if (a->connections > a->connections_max)
		argp_error(state, "--connections %u is more than --max-connections %u",
			a->connections, a->connections_max);
	if (!(a->seconds > 0))
		a->seconds = 10;
	if (a->stages.n || a->rate > 0)
		return;
	a->users = a->users ? a->users : 1;
	a->stages = (struct stages){ { { 0, a->users }, { a->seconds, a->users } }, 2 };
}

static const struct option_row options[] = { { NULL, 0, NULL, 0, "How much load:", 1 },
	{ "vus", 'u', "N", 0, "virtual users, each of which waits for its answer (1)", 1,
		OPT_COUNT(struct load_args, users, 1, STAGES_USERS_MAX) },
	{ "duration", 'd', "TIME", 0, "how long (10s)", 1,
		OPT_SECONDS(struct load_args, seconds, STAGES_S_MAX) },
	{ "stages", 0, "TIME:N,...", 0,
		"go to N users within TIME, and so on, as k6: 30s:20,1m:20,30s:0", 1,
		OPT_CALL(parse_stages) },
	{ "think", 0, "TIME", 0, "a user's pause after each answer (0)", 1,
		OPT_PARSE(struct load_args, think_s, parse_think) },
	{ "rate", 0, "N", 0,
		"N requests a second in place of users, whether answers come or not; latency counts "
		"from when a request is due",
		1, OPT_NUMBER(struct load_args, rate, 1e-3, 1e7) },
	{ "connections", 0, "N", 0, "with --rate: made before it begins (0)", 1,
		OPT_COUNT(struct load_args, connections, 0, STAGES_USERS_MAX) },
	{ "max-connections", 0, "N", 0, "with --rate: at once (500)", 1,
		OPT_COUNT(struct load_args, connections_max, 1, STAGES_USERS_MAX) },
	{ NULL, 0, NULL, 0, "Requests:", 2 },
	{ "body", 0, "TEXT|@FILE", 0,
		"what to send; repeated: in turn. {unique} in it stands for a number", 2,
		OPT_CALL(parse_body) },
	{ "images", 0, "DIR", 0,
		"pictures to send in turn: a folder's, or a data set's test images; in a body as "
		"{base64} or {pixels}",
		2, OPT_FILE(struct load_args, images) },
	{ "known", 0, "N", 0, "with --images: the first N pictures (1000)", 2,
		OPT_COUNT(struct load_args, known, 1, PICTURES_MAX) },
	{ "cache-rate", 0, "SHARE", 0,
		"share of requests that are known, the others are unique (1)", 2,
		OPT_NUMBER(struct load_args, cache_rate, 0, 1) },
	{ "seed", 0, "N", 0, "chooses which requests are unique (1)", 2,
		OPT_COUNT(struct load_args, seed, 0, UINT64_MAX) },
	{ "method", 0, "NAME", 0, "GET, POST, ... (POST with a body)", 2,
		OPT(struct load_args, method) },
	{ "also", 0, "PATH", 0,
		"GET this path of the same server before each request; may be repeated", 2,
		OPT(struct load_args, also) },
	{ "header", 'H', "NAME: VALUE", 0, "send this header too; may be repeated", 2,
		OPT(struct load_args, headers) },
	{ "token-file", 0, "FILE", 0,
		"send the file's first line as the header Authorization: Bearer", 2,
		OPT_FILE(struct load_args, token_file) },
	{ "timeout", 0, "TIME", 0, "how long to wait for an answer (60s)", 2,
		OPT_SECONDS(struct load_args, timeout_s, STAGES_S_MAX) },
	{ "no-keep-alive", 0, NULL, 0, "a connection for each request", 2,
		OPT(struct load_args, close) },
	{ "cacert", 0, "FILE", 0, "PEM file of CA certificates to trust", 2,
		OPT_FILE(struct load_args, cacert) },
	{ "tls-verify", 0, "BOOL", 0, "false: take any certificate (true)", 2,
		OPT_WORD(struct load_args, verify, bools) },
	{ NULL, 0, NULL, 0, "Results:", 3 },
	{ "check", 0, "TEST", 0,
		"count answers for which it is true: 'status==200', 'body contains \"x\"', "
		"'header NAME == \"x\"'; may be repeated",
		3, OPT_CALL(parse_check) },
	{ "threshold", 0, "BOUND", 0,
		"exit with 99 unless it is kept: 'p(99)<2000ms', 'http_req_failed:rate<1%', "
		"'http_reqs:rate>1000', 'checks:rate>0.99'; may be repeated",
		3, OPT_CALL(parse_threshold) },
	{ "abort-on-fail", 0, "TIME", OPTION_ARG_OPTIONAL,
		"end the run when a threshold is not kept, at the earliest after TIME (0s)", 3,
		OPT_PARSE(struct load_args, abort_s, parse_abort) },
	{ "json", 0, "FILE", 0, "write the results as JSON; - is standard output", 3,
		OPT_FILE(struct load_args, json) },
	{ "output", 'o', "FILE", 0, "write the results as an HTML page; - is standard output", 3,
		OPT_FILE(struct load_args, output) },
	{ "name", 0, "TEXT", 0, "what reports call this run (the URL)", 3,
		OPT(struct load_args, name) },
	{ "quiet", 'q', NULL, 0, "no summary, no live line", 3, OPT(struct load_args, quiet) },
	{ 0 } };

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "URL",
	.doc = "Put load on an HTTP server and measure how it answers. URL is http://HOST[:PORT]/PATH, "
	       "https://... or unix:SOCKET[:/PATH]. Without --rate, --vus users send one request after the "
	       "other.",
	.operands = { OPT(struct load_args, url) },
	.needed = 1,
	.missing = "which URL? http://, https:// or unix:SOCKET",
	.surplus = "one URL is expected",
	.check = check,
};

/* Read it; invalid options end the program. */
static void load_args_parse(int argc, char **argv, struct load_args *ret)
{
	*ret = (struct load_args){ .timeout_s = 60,
		.known = 1000,
		.cache_rate = 1,
		.seed = 1,
		.verify = 1,
		.abort_s = -1 };
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "mltrain " PACKAGE_VERSION;
	options_parse("mltrain load", argc, argv, &syntax, ret);
}

static void load_args_done(struct load_args *a)
{
	for (size_t i = 0; i < a->n_checks; i++)
		check_done(&a->checks[i]);
	for (size_t i = 0; i < a->n_thresholds; i++)
		threshold_done(&a->thresholds[i]);
	for (size_t i = 0; i < a->n_bodies; i++)
		free(a->bodies[i].bytes);
	free(a->bodies);
	strv_done(&a->headers);
	strv_done(&a->also);
}

#define EXIT_THRESHOLD 99 /* as k6 */
#define TOKEN_MAX      8192

static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	stop = sig;
}

/* What is looked at after each second of a run. */
struct watch {
	const struct load_args *args;
	const struct load_options *load;
	int draws; /* the live line */
};

/* --- the live line ---------------------------------------------------------------------- */

static int line_drawn;

static void clear_line(void)
{
	if (line_drawn)
		fputs("\r\033[K", stderr);
	line_drawn = 0;
}

static void draw_line(const struct load_options *o, const struct results_row *row)
{
	struct winsize w = { 0 };
	char line[256];
	int columns = 80;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
		columns = w.ws_col;
	summary_line(line, sizeof(line), o, row);
	fprintf(stderr, "\r%.*s\033[K", columns - 1, line);
	line_drawn = 1;
}

static int is_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* --- a run ------------------------------------------------------------------------------ */

static int read_token(const char *path, char **ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len;

	TRY(file_read(AT_FDCWD, path, TOKEN_MAX, &text, &len, err));
	text[strcspn(text, "\r\n")] = '\0';
	if (!*text)
		return mlr_fail(err, EINVAL, "token file '%s': its first line is empty", path);
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p == 0x7f)
			return mlr_fail(err, EINVAL,
				"token file '%s': its first line is not one printable word", path);
	*ret = take_ptr(&text);
	return 0;
}

/* Write to a file or, for "-", standard output. */
static int put_file(const char *path, const char *text, size_t len, struct mlr_error *err)
{
	if (strcmp(path, "-") != 0)
		return file_put(path, text, len, 0666, err);
	return mlr_result(err, file_write_all(STDOUT_FILENO, text, len), "write to stdout");
}

/* The page of one run, made of its record: as `mltrain report` makes it. */
static int put_page(const char *path, const char *record, size_t len, struct mlr_error *err)
{
	auto_call(traffic_done) struct traffic t = { 0 };
	auto_free char *text = NULL;
	size_t size;
	int r = traffic_parse(&t, record, len, "the results", err);
	FILE *f = r < 0 ? NULL : open_memstream(&text, &size);

	if (r < 0)
		return r;
	if (!f)
		mlr_oom();
	traffic_write(f, &t);
	fclose(f);
	return put_file(path, text, size, err);
}

/* All answers, to where they were asked for. What stands on standard output is one thing alone. */
static int tell(const struct load_args *a, const struct summary *s, struct mlr_error *err)
{
	int taken = (a->json && strcmp(a->json, "-") == 0) ||
		(a->output && strcmp(a->output, "-") == 0);
	auto_free char *record = NULL;
	size_t len;
	int r = 0;

	if (!a->quiet)
		summary_write(taken ? stderr : stdout, s);
	if (fflush(stdout) != 0)
		return mlr_fail_errno(err, "write to stdout");
	if (a->json || a->output)
		record = summary_json(s, &len);
	if (a->json)
		r = put_file(a->json, record, len, err);
	if (r == 0 && a->output)
		r = put_page(a->output, record, len, err);
	return r;
}

/* The resources of a run. */
struct needs {
	struct target target;
	struct pictures pictures;
	struct requests *requests;
	SSL_CTX *tls;
	char *token;
};

static void needs_done(struct needs *n)
{
	requests_free(&n->requests);
	pictures_done(&n->pictures);
	target_done(&n->target);
	SSL_CTX_free(n->tls);
	free(n->token);
}

static int prepare(const struct load_args *a, struct needs *n, struct request_options *q,
	struct mlr_error *err)
{
	TRY(target_parse(a->url, &n->target, err));
	TRY(target_find(&n->target, err));
	if (a->token_file)
		TRY(read_token(a->token_file, &n->token, err));
	if (a->images)
		TRY(pictures_read(a->images, a->known, &n->pictures, err));
	if (n->target.tls)
		TRY(connection_tls_new(a->cacert, a->verify, &n->tls, err));
	*q = (struct request_options){ &n->target, a->method, &a->also, &a->headers, n->token,
		a->bodies, a->n_bodies, a->images ? &n->pictures : NULL, a->cache_rate, a->seed,
		a->close };
	return requests_new(q, &n->requests, err);
}

static int all_kept(const struct load_args *a, const struct results *r)
{
	for (size_t i = 0; i < a->n_thresholds; i++)
		if (!threshold_kept(&a->thresholds[i], r))
			return 0;
	return 1;
}

/* Is a threshold broken for which it is not too early? A count is known at the end only. */
static int is_hopeless(const struct load_args *a, const struct results *r)
{
	for (size_t i = 0; i < a->n_thresholds; i++) {
		const struct threshold *t = &a->thresholds[i];

		if (t->aggregate != THRESHOLD_COUNT && !isnan(threshold_seen(t, r)) &&
			!threshold_kept(t, r))
			return 1;
	}
	return 0;
}

static int watch(void *ctx, const struct results *r, const struct results_row *row)
{
	const struct watch *w = ctx;

	if (w->draws)
		draw_line(w->load, row);
	return w->args->abort_s >= 0 && row->time >= w->args->abort_s && is_hopeless(w->args, r);
}

/* Returns the exit status, or a negative errno. */
static int run(struct load_args *a, struct mlr_error *err)
{
	auto_call(needs_done) struct needs needs = { .target = { 0 } };
	auto_call(results_done) struct results results;
	struct mlr_error why = MLR_ERROR_INIT;
	struct request_options q;
	struct load_options o;
	struct watch w = { a, &o, !a->quiet && is_terminal() };
	struct summary s;
	int r, told;

	results_init(&results);
	TRY(prepare(a, &needs, &q, err));
	o = (struct load_options){ &needs.target, needs.tls, needs.requests, a->stages, a->rate,
		a->seconds, a->connections, a->connections_max, a->think_s, a->timeout_s,
		LOAD_GRACE_S, a->close, a->checks, a->n_checks, &stop, watch, &w };
	s = (struct summary){ &o, &results, a->url, a->name ? a->name : a->url, a->thresholds,
		a->n_thresholds, a->cache_rate, (double)time(NULL), a->images, 0 };
	r = load_run(&o, &results, &why);
	clear_line();
	s.interrupted = r == -EINTR || r == -ECANCELED;
	if (r == -EMFILE)
		return mlr_pass(err, EMFILE, why.text);
	told = tell(a, &s, err);
	if (told < 0)
		return told;
	if (r == -EINTR)
		return 128 + stop;
	if (r < 0 && r != -ECANCELED)
		return mlr_pass(err, why.code, why.text);
	return all_kept(a, &results) ? 0 : EXIT_THRESHOLD;
}

int main(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct load_args a;
	int r;

	fds_open_standard();
	mlr_log_init("mltrain");
	load_args_parse(argc, argv, &a);
	/* The first signal ends the run, a second one the program. */
	signal_catch_ends(on_stop, (int)SA_RESETHAND);
	signal(SIGPIPE, SIG_IGN);
	r = run(&a, &err);
	load_args_done(&a);
	if (r >= 0)
		return r;
	mlr_wrap(&err, "load");
	mlr_log_error(&err);
	return EXIT_BROKEN;
}
