#include "cli/load_args.h"

#include "base/base.h"
#include "cli/mltrain.h"
#include "config.h"

#include <argp.h>

#define BODY_MAX    ((size_t)64 << 20)
#define CONNECTIONS 500 /* at once: where only 1024 files may be open, they fit */

static const char *const bools[] = { "false", "true", NULL };

static void parse_think(void *field, char *arg, struct argp_state *state)
{
	if (stages_duration(arg, strlen(arg), field) < 0)
		argp_error(state, "--think '%s' is not a time such as 30s, 1m30s or 500ms", arg);
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
	a->bodies = xgrow(a->bodies, a->n_bodies, sizeof(b));
	a->bodies[a->n_bodies++] = b;
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

static void print_version(FILE *out, struct argp_state *state)
{
	fprintf(out, "mltrain %s\n", PACKAGE_VERSION);
}

void load_args_parse(int argc, char **argv, struct load_args *ret)
{
	*ret = (struct load_args){
		.timeout_s = 60, .known = 1000, .cache_rate = 1, .seed = 1, .verify = 1
	};
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version_hook = print_version;
	options_parse("mltrain load", argc, argv, &syntax, ret);
}

void load_args_done(struct load_args *a)
{
	for (size_t i = 0; i < a->n_checks; i++)
		check_done(&a->checks[i]);
	for (size_t i = 0; i < a->n_thresholds; i++)
		threshold_done(&a->thresholds[i]);
	for (size_t i = 0; i < a->n_bodies; i++)
		free(a->bodies[i].bytes);
	free(a->bodies);
	strv_done(&a->headers);
}
