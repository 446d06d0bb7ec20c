#include "cli/load_args.h"

#include "base/base.h"
#include "cli/mltrain.h"
#include "config.h"

#include <argp.h>

#define BODY_MAX    ((size_t)64 << 20)
#define CONNECTIONS 500 /* at once: where only 1024 files may be open, they fit */

enum {
	KEY_STAGES = 256,
	KEY_RATE,
	KEY_CONNECTIONS,
	KEY_CONNECTIONS_MAX,
	KEY_THINK,
	KEY_BODY,
	KEY_IMAGES,
	KEY_KNOWN,
	KEY_CACHE_RATE,
	KEY_SEED,
	KEY_TIMEOUT,
	KEY_NO_KEEP_ALIVE,
	KEY_CACERT,
	KEY_TLS_VERIFY,
	KEY_TOKEN_FILE,
	KEY_CHECK,
	KEY_THRESHOLD,
	KEY_METHOD,
	KEY_JSON,
	KEY_NAME,
};

static const struct argp_option options[] = { { NULL, 0, NULL, 0, "How much load:", 1 },
	{ "vus", 'u', "N", 0, "virtual users, each of which waits for its answer (1)", 1 },
	{ "duration", 'd', "TIME", 0, "how long (10s)", 1 },
	{ "stages", KEY_STAGES, "TIME:N,...", 0,
		"go to N users within TIME, and so on, as k6: 30s:20,1m:20,30s:0", 1 },
	{ "think", KEY_THINK, "TIME", 0, "a user's pause after each answer (0)", 1 },
	{ "rate", KEY_RATE, "N", 0,
		"N requests a second in place of users, whether answers come or not; latency counts "
		"from when a request is due",
		1 },
	{ "connections", KEY_CONNECTIONS, "N", 0, "with --rate: made before it begins (0)", 1 },
	{ "max-connections", KEY_CONNECTIONS_MAX, "N", 0, "with --rate: at once (500)", 1 },
	{ NULL, 0, NULL, 0, "Requests:", 2 },
	{ "body", KEY_BODY, "TEXT|@FILE", 0,
		"what to send; repeated: in turn. {unique} in it stands for a number", 2 },
	{ "images", KEY_IMAGES, "DIR", 0,
		"pictures to send in turn: a folder's, or a data set's test images; in a body as "
		"{base64} or {pixels}",
		2 },
	{ "known", KEY_KNOWN, "N", 0, "with --images: the first N pictures (1000)", 2 },
	{ "cache-rate", KEY_CACHE_RATE, "SHARE", 0,
		"share of requests that are known, the others are unique (1)", 2 },
	{ "seed", KEY_SEED, "N", 0, "chooses which requests are unique (1)", 2 },
	{ "method", KEY_METHOD, "NAME", 0, "GET, POST, ... (POST with a body)", 2 },
	{ "header", 'H', "NAME: VALUE", 0, "send this header too; may be repeated", 2 },
	{ "token-file", KEY_TOKEN_FILE, "FILE", 0,
		"send the file's first line as the header Authorization: Bearer", 2 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0, "how long to wait for an answer (60s)", 2 },
	{ "no-keep-alive", KEY_NO_KEEP_ALIVE, NULL, 0, "a connection for each request", 2 },
	{ "cacert", KEY_CACERT, "FILE", 0, "PEM file of CA certificates to trust", 2 },
	{ "tls-verify", KEY_TLS_VERIFY, "BOOL", 0, "false: take any certificate (true)", 2 },
	{ NULL, 0, NULL, 0, "Results:", 3 },
	{ "check", KEY_CHECK, "TEST", 0,
		"count answers for which it is true: 'status==200', 'body contains \"x\"', "
		"'header NAME == \"x\"'; may be repeated",
		3 },
	{ "threshold", KEY_THRESHOLD, "BOUND", 0,
		"exit with 99 unless it is kept: 'p(99)<2000ms', 'http_req_failed:rate<1%', "
		"'http_reqs:rate>1000', 'checks:rate>0.99'; may be repeated",
		3 },
	{ "json", KEY_JSON, "FILE", 0, "write the results as JSON; - is standard output", 3 },
	{ "output", 'o', "FILE", 0, "write the results as an HTML page; - is standard output", 3 },
	{ "name", KEY_NAME, "TEXT", 0, "what reports call this run (the URL)", 3 },
	{ "quiet", 'q', NULL, 0, "no summary, no live line", 3 }, { 0 } };

static double take_time(struct argp_state *state, const char *option, const char *text)
{
	double v;

	if (stages_duration(text, strlen(text), &v) < 0)
		argp_error(
			state, "--%s '%s' is not a time such as 30s, 1m30s or 500ms", option, text);
	return v;
}

static void take_stages(struct argp_state *state, struct load_args *a, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (stages_parse(text, &a->stages, &err) < 0)
		argp_error(state, "--stages '%s': %s", text, err.text);
}

static void take_body(struct argp_state *state, struct load_args *a, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct request_body b = { NULL, strlen(text) };

	if (*text != '@')
		b.bytes = xstrdup(text);
	else if (file_read(AT_FDCWD, text + 1, BODY_MAX, &b.bytes, &b.len, &err) < 0)
		argp_error(state, "--body: %s", err.text);
	a->bodies = xgrow(a->bodies, a->n_bodies, sizeof(b));
	a->bodies[a->n_bodies++] = b;
}

static void take_check(struct argp_state *state, struct load_args *a, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (a->n_checks == CHECKS_MAX)
		argp_error(state, "more than %d checks", CHECKS_MAX);
	if (check_parse(text, &a->checks[a->n_checks], &err) < 0)
		argp_error(state, "--check '%s': %s", text, err.text);
	a->n_checks++;
}

static void take_threshold(struct argp_state *state, struct load_args *a, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (a->n_thresholds == THRESHOLDS_MAX)
		argp_error(state, "more than %d thresholds", THRESHOLDS_MAX);
	if (threshold_parse(text, &a->thresholds[a->n_thresholds], &err) < 0)
		argp_error(state, "--threshold '%s': %s", text, err.text);
	a->n_thresholds++;
}

/* Which options go together, and what those that were not given are. */
static void check(struct argp_state *state, struct load_args *a)
{
	int closed = a->stages.n || a->users;

	if (!a->url)
		argp_error(state, "which URL? http://, https:// or unix:SOCKET");
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

static double take_positive_time(struct argp_state *state, const char *option, const char *text)
{
	double v = take_time(state, option, text);

	if (!(v > 0))
		argp_error(state, "--%s '%s' must be greater than 0", option, text);
	return v;
}

static error_t parse_request(int key, char *arg, struct argp_state *state, struct load_args *a)
{
	static const char *const bools[] = { "false", "true", NULL };

	switch (key) {
	case KEY_BODY:
		take_body(state, a, arg);
		return 0;
	case KEY_IMAGES:
		a->images = arg_file(state, "images", arg);
		return 0;
	case KEY_KNOWN:
		a->known = (unsigned)arg_count(state, "known", arg, 1, PICTURES_MAX);
		return 0;
	case KEY_CACHE_RATE:
		a->cache_rate = arg_number(state, "cache-rate", arg, 0, 1);
		return 0;
	case KEY_SEED:
		a->seed = arg_count(state, "seed", arg, 0, UINT64_MAX);
		return 0;
	case KEY_METHOD:
		a->method = arg;
		return 0;
	case 'H':
		strv_add(&a->headers, arg);
		return 0;
	case KEY_TOKEN_FILE:
		a->token_file = arg_file(state, "token-file", arg);
		return 0;
	case KEY_TIMEOUT:
		a->timeout_s = take_positive_time(state, "timeout", arg);
		return 0;
	case KEY_NO_KEEP_ALIVE:
		a->close = 1;
		return 0;
	case KEY_CACERT:
		a->cacert = arg_file(state, "cacert", arg);
		return 0;
	case KEY_TLS_VERIFY:
		a->no_verify = !arg_word(state, "tls-verify", arg, bools);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_load(int key, char *arg, struct argp_state *state, struct load_args *a)
{
	switch (key) {
	case 'u':
		a->users = (unsigned)arg_count(state, "vus", arg, 1, STAGES_USERS_MAX);
		return 0;
	case 'd':
		a->seconds = take_positive_time(state, "duration", arg);
		return 0;
	case KEY_STAGES:
		take_stages(state, a, arg);
		return 0;
	case KEY_THINK:
		a->think_s = take_time(state, "think", arg);
		return 0;
	case KEY_RATE:
		a->rate = arg_number(state, "rate", arg, 1e-3, 1e7);
		return 0;
	case KEY_CONNECTIONS:
		a->connections =
			(unsigned)arg_count(state, "connections", arg, 0, STAGES_USERS_MAX);
		return 0;
	case KEY_CONNECTIONS_MAX:
		a->connections_max =
			(unsigned)arg_count(state, "max-connections", arg, 1, STAGES_USERS_MAX);
		return 0;
	default:
		return parse_request(key, arg, state, a);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct load_args *a = state->input;

	switch (key) {
	case KEY_CHECK:
		take_check(state, a, arg);
		return 0;
	case KEY_THRESHOLD:
		take_threshold(state, a, arg);
		return 0;
	case KEY_JSON:
		a->json = arg_file(state, "json", arg);
		return 0;
	case 'o':
		a->output = arg_file(state, "output", arg);
		return 0;
	case KEY_NAME:
		a->name = arg;
		return 0;
	case 'q':
		a->quiet = 1;
		return 0;
	case ARGP_KEY_ARG:
		if (a->url)
			argp_error(state, "one URL, not '%s' too", arg);
		a->url = arg;
		return 0;
	case ARGP_KEY_END:
		check(state, a);
		return 0;
	default:
		return parse_load(key, arg, state, a);
	}
}

static const struct argp argp = { options, parse, "URL",
	"Put load on an HTTP server and measure how it answers. URL is http://HOST[:PORT]/PATH, "
	"https://... or unix:SOCKET[:/PATH]. Without --rate, --vus users send one request after the "
	"other." };

static void print_version(FILE *out, struct argp_state *state)
{
	(void)state;
	fprintf(out, "mltrain %s\n", PACKAGE_VERSION);
}

void load_args_parse(int argc, char **argv, struct load_args *ret)
{
	static char name[] = "mltrain load";

	*ret = (struct load_args){ .timeout_s = 60, .known = 1000, .cache_rate = 1, .seed = 1 };
	if (argc)
		argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version_hook = print_version;
	arg_check_spelling(argv, options);
	argp_parse(&argp, argc, argv, 0, NULL, ret);
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
