/* mltrain serve: answers predictions over HTTP. */
#include "cli/mltrain.h"

#include "config.h"
#include "cli/arg.h"
#include "serve/server.h"

#include <math.h>
#include <sys/resource.h>

#define TOKEN_FILE_MAX 4096
#define SPARE_FILES    64 /* descriptors beside the connections' */

struct args {
	struct predictor_options use;
	struct strv checkpoints, hosts;
	const char *listen[SERVER_SOCKETS]; /* its own, and one that others share; NULL: none */
	const char *token_file, *cache;
	int delay_us, queue, connections, http_threads;
	double ttl, idle, timeout; /* seconds */
	size_t body, memory;
};

static const struct option_row options[] = { { "checkpoint", 0, "FILE", OPTION_HIDDEN, NULL, 1,
						     OPT(struct args, checkpoints) },
	{ "listen", 0, "HOST:PORT|unix:PATH", 0, "where (127.0.0.1:8000)", 3,
		OPT(struct args, listen[0]) },
	{ "shared-listen", 0, "HOST:PORT", 0,
		"where several servers of yours listen, which divide the connections", 3,
		OPT(struct args, listen[1]) },
	{ "host", 0, "NAME", 0, "a further name of this server, as a proxy before it calls it", 3,
		OPT(struct args, hosts) },
	{ "token-file", 0, "FILE", 0,
		"a file with the token that clients have to give; needed beyond this machine", 3,
		OPT_FILE(struct args, token_file) },
	{ "max-batch", 0, "N", 0, "images computed at once (64)", 4,
		OPT_COUNT(struct args, use.batch, 1, PREDICTOR_BATCH_MAX) },
	{ "max-delay", 0, "MICROSECONDS", 0, "how long a batch that is not full waits for more (0)",
		4, OPT_COUNT(struct args, delay_us, 0, 10000000) },
	{ "max-queue", 0, "N", 0, "images that wait (1024); more are refused with 429", 4,
		OPT_COUNT(struct args, queue, 1, 1 << 24) },
	{ "cache", 0, "memory:SIZE|redis://HOST:PORT/DB", 0, "keep answers", 5,
		OPT(struct args, cache) },
	{ "cache-ttl", 0, "TIME", 0, "for so long (60s)", 5, OPT_SECONDS(struct args, ttl, 1e6) },
	{ "max-body", 0, "MIB", 0, "of a request (4)", 6,
		OPT_COUNT_OF(struct args, body, 1, 1024, 1 << 20) },
	{ "max-memory", 0, "MIB", 0, "for all requests' bodies and images (256)", 6,
		OPT_COUNT_OF(struct args, memory, 1, 1 << 20, 1 << 20) },
	{ "max-connections", 0, "N", 0, "at once (10240)", 6,
		OPT_COUNT(struct args, connections, 1, 1 << 20) },
	{ "http-threads", 0, "N", 0, "that read and write (1)", 6,
		OPT_COUNT(struct args, http_threads, 1, 256) },
	{ "idle-timeout", 0, "TIME", 0, "a connection may wait for its next request (60s)", 6,
		OPT_SECONDS(struct args, idle, 1e6) },
	{ "timeout", 0, "TIME", 0,
		"a client may take to send a request, and to take an answer (30s)", 6,
		OPT_SECONDS(struct args, timeout, 1e6) },
	{ 0 } };

static void check(void *args, struct argp_state *state)
{
	struct args *a = args;

	if (a->checkpoints.n)
		a->use.checkpoint = a->checkpoints.v[a->checkpoints.n - 1];
	predictor_check(&a->use, state);
}

static const struct options_syntax syntax = {
	.options = options,
	.doc = "Answer predictions over HTTP: POST /predict, the Open Inference Protocol (/v2) and TensorFlow "
	       "Serving's REST API (/v1), and a page to try them. --checkpoint may be given several times, as "
	       "NAME=FILE; /predict asks the first. SIGHUP reads the checkpoints again; SIGTERM ends after the "
	       "requests that have begun.",
	.shared = { { predictor_rows, offsetof(struct args, use) } },
	.surplus = "not an option",
	.check = check,
};

/* Everything that runs. */
struct running {
	struct serve_counts counts;
	struct serve_context context;
	struct serve_queue *queue;
	struct serve_cache *cache;
	struct server *server;
	char *token;
	struct http_socket sockets[SERVER_SOCKETS];
};

int main_fail(const struct mlr_error *err)
{
	mlr_log_error(err);
	return EXIT_BROKEN;
}

/* Read the token; the last newline is the editor's. */
static int read_token(const char *path, char **ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len;

	if (file_read(AT_FDCWD, path, TOKEN_FILE_MAX, &text, &len, err) < 0)
		return mlr_wrap(err, "--token-file");
	if (len && text[len - 1] == '\n')
		text[--len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return mlr_fail(err, EINVAL,
				"--token-file '%s': a token is one word of printable characters",
				path);
	if (len < HTTP_TOKEN_MIN) {
		mlr_fail(err, EINVAL, "--token-file '%s': a token has at least %d characters", path,
			HTTP_TOKEN_MIN);
		return mlr_hint(err, "openssl rand -hex 32 >FILE makes one");
	}
	*ret = take_ptr(&text);
	return 0;
}

/* A FILE or NAME=FILE; a file that has this whole name is meant itself. name [SERVE_NAME_MAX]. */
static struct serve_model_wish wish_of(const char *arg, char *name)
{
	const char *equals = strchr(arg, '=');
	size_t n = equals ? (size_t)(equals - arg) : 0;

	if (!equals || memchr(arg, '/', n) || access(arg, F_OK) == 0)
		return (struct serve_model_wish){ NULL, arg };
	snprintf(name, SERVE_NAME_MAX, "%.*s", (int)n, n < SERVE_NAME_MAX ? arg : "");
	return (struct serve_model_wish){ name, equals + 1 };
}

static int add_models(const struct args *a, struct running *s, struct mlr_error *err)
{
	s->context.models = serve_models_new(&a->use);
	s->context.counts = &s->counts;
	for (size_t i = 0; i < a->checkpoints.n; i++) {
		char name[SERVE_NAME_MAX];
		const struct serve_model_wish wish = wish_of(a->checkpoints.v[i], name);

		TRY(serve_models_add(s->context.models, &wish, err));
	}
	return 0;
}

/* Have as many descriptors as there may be connections; returns for how many there are. */
static int raise_files(int connections)
{
	struct rlimit limit;
	rlim_t want = (rlim_t)connections + SPARE_FILES;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return connections;
	if (limit.rlim_cur < want) {
		limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= want)
		return connections;
	connections =
		limit.rlim_cur > 2 * SPARE_FILES ? (int)limit.rlim_cur - SPARE_FILES : SPARE_FILES;
	mlr_info("%d connections at once, as ulimit -n allows no more", connections);
	return connections;
}

static int listen_at(const struct args *a, int i, struct running *s, struct mlr_error *err)
{
	const char *option = i ? "--shared-listen" : "--listen";
	int r = http_listen(a->listen[i], i, &s->sockets[i], err);

	if (r < 0)
		return mlr_wrap(err, "%s '%s'", option, a->listen[i]);
	if (s->sockets[i].reach != HTTP_NETWORK || s->token)
		return 0;
	mlr_fail(err, EPERM, "%s '%s': others can reach this address", option, a->listen[i]);
	return mlr_hint(err, "--token-file FILE says who may ask; or listen on 127.0.0.1");
}

static int listen_there(const struct args *a, struct running *s, struct mlr_error *err)
{
	int r = a->token_file ? read_token(a->token_file, &s->token, err) : 0;

	for (int i = 0; i < SERVER_SOCKETS; i++) {
		s->sockets[i].fd = -1;
		if (r == 0 && a->listen[i])
			r = listen_at(a, i, s, err);
	}
	return r;
}

static int open_server(const struct args *a, struct running *s, struct mlr_error *err)
{
	static const char *tokens[2];
	const struct http_wish wish = { .tokens = s->token ? tokens : NULL,
		.hosts = (const char *const *)a->hosts.v,
		.threads = a->http_threads,
		.connections = raise_files(a->connections),
		.body = a->body,
		.memory = a->memory,
		.idle_ms = (int64_t)ceil(a->idle * 1000),
		.request_ms = (int64_t)ceil(a->timeout * 1000) };

	tokens[0] = s->token;
	return server_open(
		&wish, a->queue, s->sockets, &s->context, s->queue, s->cache, &s->server, err);
}

static int start(const struct args *a, struct running *s, struct mlr_error *err)
{
	const struct serve_queue_wish queue = { a->use.batch, a->delay_us * 1e-6, a->queue };
	const char *name[SERVER_SOCKETS];

	TRY(listen_there(a, s, err));
	TRY(add_models(a, s, err));
	if (a->cache &&
		serve_cache_open(a->cache, (int)ceil(a->ttl), &s->counts, &s->cache, err) < 0)
		return mlr_wrap(err, "--cache '%s'", a->cache);
	TRY(serve_queue_open(&queue, &s->counts, &s->queue, err));
	TRY(open_server(a, s, err));
	for (int i = 0; i < SERVER_SOCKETS; i++)
		name[i] = s->sockets[i].name;
	mlr_info("serving '%s' on %s%s%s", serve_models_name(s->context.models, 0),
		name[0] ? name[0] : "", name[0] && name[1] ? " and " : "", name[1] ? name[1] : "");
	return serve_models_complete(s->context.models, err);
}

static void tell_kept(const struct mlr_error *err, const char *name)
{
	struct mlr_error said = *err;

	mlr_wrap(&said, "reload model '%s'", name);
	mlr_log_failure(MLR_WARNING, &said, "; serving the old one");
}

static void reload(struct running *s)
{
	int failed = serve_models_reload(s->context.models, tell_kept);

	atomic_fetch_add(&s->counts.reloads, 1);
	atomic_fetch_add(&s->counts.reloads_failed, (uint_fast64_t)failed);
	if (!failed)
		mlr_info("read the checkpoints again");
}

/* Serve until a signal ends it. */
static int wait_for_end(const struct args *a, struct running *s, const sigset_t *signals)
{
	int sig = 0, left;

	while (sig != SIGTERM && sig != SIGINT) {
		sigwait(signals, &sig);
		if (sig == SIGHUP)
			reload(s);
	}
	mlr_info("ending after the requests that have begun");
	left = server_drain(s->server, (int64_t)ceil(a->timeout * 1000));
	if (a->listen[0] && strncmp(a->listen[0], "unix:", 5) == 0)
		unlink(a->listen[0] + 5);
	if (!left)
		return 0;
	mlr_warning("%d requests were not answered within %g seconds", left, a->timeout);
	_exit(EXIT_BROKEN); /* threads are still at work on them */
}

static void running_done(struct running *s)
{
	serve_cache_close(&s->cache);
	serve_queue_close(&s->queue);
	server_close(&s->server);
	serve_models_free(&s->context.models);
	free(s->token);
	for (int i = 0; i < SERVER_SOCKETS; i++)
		free(s->sockets[i].name);
}

int main(int argc, char **argv)
{
	struct args a = { .use = predictor_options(),
		.queue = 1024,
		.connections = 10240,
		.http_threads = 1,
		.ttl = 60,
		.idle = 60,
		.timeout = 30,
		.body = (size_t)4 << 20,
		.memory = (size_t)256 << 20 };
	static struct running s;
	struct mlr_error err = MLR_ERROR_INIT;
	sigset_t signals;
	int r, status;

	fds_open_standard();
	mlr_log_init("mltrain");
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "mltrain " PACKAGE_VERSION;
	a.use.batch = 64;
	options_parse("mltrain serve", argc, argv, &syntax, &a);
	if (!a.listen[0] && !a.listen[1])
		a.listen[0] = "127.0.0.1:8000";

	/* All threads inherit the mask; this one takes the signals when it likes. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	signal(SIGHUP, SIG_DFL); /* nohup(1) ignores it, and reloads are asked for by it */
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = start(&a, &s, &err);
	status = r < 0 ? main_fail(&err) : wait_for_end(&a, &s, &signals);
	if (r < 0 && s.server)
		_exit(status); /* its threads are at work */
	running_done(&s);
	strv_done(&a.checkpoints);
	strv_done(&a.hosts);
	return status;
}
