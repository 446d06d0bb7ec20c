/* mlrun web: serves the page of runs, and tells where it is. mlrun becomes it, with its own argv.
 */
#include "web/web.h"

#include "base/account.h"
#include "base/config.h"
#include "base/home.h"
#include "base/json.h"
#include "base/options.h"
#include "base/program.h"

#include <math.h>

#define EXIT_FAILED     125
#define SOCKETS         3 /* IPv4, IPv6, a file */
#define PORTS_TRIED     50
#define CONNECTIONS_MAX 256
#define BODY_MAX        ((size_t)1 << 20)
#define DRAIN_MS        2000

struct args {
	struct strv operands, hosts;
	const char *listen, *prefix;
	double idle;
	int read_only, allow_root, json;
};

static const struct option_row options[] = {
	{ "listen", 0, "ADDRESS:PORT|unix:PATH", 0,
		"where, on this machine only (127.0.0.1 and ::1, port 9000 and more)", 1,
		OPT(struct args, listen) },
	{ "host", 0, "NAME[:PORT]", 0, "a name that a proxy in front of it is called by", 1,
		OPT(struct args, hosts) },
	{ "prefix", 0, "PATH", 0, "the path below which a proxy shows it, for the link", 1,
		OPT(struct args, prefix) },
	{ "read-only", 0, NULL, 0, "only show runs", 2, OPT(struct args, read_only) },
	{ "idle", 0, "TIME", 0, "end when nobody has looked for so long", 2,
		OPT_SECONDS(struct args, idle, 1e8) },
	{ "allow-root", 0, NULL, 0, "serve as root: whoever has the link is root then", 2,
		OPT(struct args, allow_root) },
	{ "json", 0, NULL, 0, "with list: as JSON", 3, OPT(struct args, json) },
	{ 0 },
};

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "[DIR...]\nlink\nlist\nstop",
	.doc = "Show the runs in DIR in a browser, and start and stop them there. "
	       "(default: the setting runs, else ~/mlrun-runs)\v"
	       "`link` prints a fresh link of the server that runs on this node, `list` lists your "
	       "servers here, `stop` ends them; runs go on. mlrun-web(1) says more.",
	.operands = { { .kind = OPTION_LIST, .at = offsetof(struct args, operands) } },
};

static int fail(struct mlr_error *err)
{
	mlr_wrap(err, "web");
	mlr_log_error(err);
	return EXIT_FAILED;
}

/* --- link, list, stop -------------------------------------------------------------------- */

/* Print where a server's page is. */
static int print_link(const struct server *s, struct mlr_error *err)
{
	char key[65];
	const char *port = strrchr(s->url, ':');
	auto_free char *number = xstrndup(port + 1, strspn(port + 1, "0123456789"));

	TRY(server_key_make(s, key, err));
	if (strncmp(s->url, "unix:", 5) == 0) {
		printf("socket     %s, for a proxy; the page's address ends in #k=%s\n", s->url + 5,
			key);
		return 0;
	}
	printf("here       %s#k=%s\n"
	       "elsewhere  ssh -L %s:127.0.0.1:%s %s, then the same link\n",
		s->url, key, number, number, s->node);
	fflush(stdout);
	return 0;
}

static int each_server(const struct args *a)
{
	auto_call(server_list_done) struct server_list list = { 0 };
	const char *verb = a->operands.v[0];
	struct mlr_error err = MLR_ERROR_INIT;

	if (server_list_read(&list, &err) < 0)
		return fail(&err);
	if (strcmp(verb, "list") == 0 && a->json) {
		auto_free char *text = mlr_json_print(
			MLR_JSON_LIST(i, list.n, server_json(&list.v[i])), JSON_INDENT(2));

		puts(text);
		return 0;
	}
	if (list.n == 0 && strcmp(verb, "list") != 0) {
		mlr_fail(&err, ESRCH, "no server of yours runs on this node");
		mlr_hint(&err, "mlrun web [DIR...] starts one");
		fail(&err);
		return 1;
	}
	for (size_t i = 0; i < list.n; i++) {
		const struct server *s = &list.v[i];

		if (strcmp(verb, "stop") == 0)
			kill(s->pid, SIGTERM);
		else if (strcmp(verb, "list") == 0)
			printf("%-32s %8d  %s\n", s->url, (int)s->pid,
				s->roots.n ? s->roots.v[0] : "");
		else if (print_link(s, &err) < 0)
			return fail(&err);
	}
	return 0;
}

/* --- serving ----------------------------------------------------------------------------- */

struct running {
	struct web web;
	struct server server;
	struct http_use use;
	struct http_socket sockets[SOCKETS];
	struct http_wish wish;
	struct http_server *http;
	const char *tokens[3];
};

static int add_root(struct web *w, const char *dir, struct mlr_error *err)
{
	auto_free char *cwd = getcwd(NULL, 0),
		       *full = *dir == '/' ? xstrdup(dir) : xasprintf("%s/%s", cwd ? cwd : "", dir);
	char *real = realpath(full, NULL);

	strv_take(&w->roots, real ? real : path_clean(full));
	return w->roots.v[w->roots.n - 1] ? 0 : mlr_fail(err, EINVAL, "'%s' is no directory", dir);
}

/* The directories of the command line, else of the setting, else the usual one. */
static int find_roots(const struct args *a, struct web *w, struct mlr_error *err)
{
	auto_call(config_done) struct config c = { 0 };
	auto_free char *home = NULL, *set = NULL;
	int is_sites;

	for (size_t i = 0; i < a->operands.n; i++)
		TRY(add_root(w, a->operands.v[i], err));
	if (w->roots.n)
		return 0;
	TRY(config_load(&c, err));
	TRY(config_word(&c, "", "runs", &set, &is_sites, err));
	if (set)
		return add_root(w, set, err);
	home = home_dir(err);
	if (!home)
		return -err->code;
	strv_addf(&w->roots, "%s/mlrun-runs", home);
	return 0;
}

/* Listen on both loopback addresses at one port: another user there would answer for localhost. */
static int listen_both(struct running *s, struct mlr_error *err)
{
	unsigned first = 9000 + (unsigned)getuid() % 1000;

	for (unsigned port = first; port < first + PORTS_TRIED; port++) {
		auto_free char *four = xasprintf("127.0.0.1:%u", port),
			       *six = xasprintf("[::1]:%u", port);
		int r = http_listen(four, 0, &s->sockets[0], err);

		if (r == 0) {
			r = http_listen(six, 0, &s->sockets[1], err);
			if (r == 0 || r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT)
				return 0; /* also where there is no IPv6 */
			fd_close(&s->sockets[0].fd);
			set_ptr(&s->sockets[0].name, NULL);
		}
		if (r != -EADDRINUSE)
			return r;
	}
	return mlr_hint(err, "--listen 127.0.0.1:0 takes any free port");
}

static int listen_at(const struct args *a, struct running *s, struct mlr_error *err)
{
	auto_free char *file = xasprintf("unix:%s/socket", s->server.directory);
	struct mlr_error ignored = MLR_ERROR_INIT;

	for (int i = 0; i < SOCKETS; i++)
		s->sockets[i].fd = -1;
	if (!a->listen) {
		TRY(listen_both(s, err));
	} else {
		if (http_listen(a->listen, 0, &s->sockets[0], err) < 0)
			return mlr_wrap(err, "--listen '%s'", a->listen);
		if (s->sockets[0].reach == HTTP_NETWORK) {
			mlr_fail(err, EPERM, "--listen '%s': others can reach this address",
				a->listen);
			return mlr_hint(err,
				"listen on 127.0.0.1 and use ssh -L, or on unix:PATH behind a site's proxy");
		}
	}
	http_listen(file, 0, &s->sockets[2], &ignored); /* for scripts; its path may be too long */
	return 0;
}

static void describe(const struct args *a, struct running *s)
{
	struct server *d = &s->server;
	const char *slash = a->prefix && *a->prefix != '/' ? "/" : "";
	size_t n = a->prefix ? strlen(a->prefix) : 0;

	d->node = xstrdup(s->web.node);
	d->header = xasprintf("%s/header", d->directory);
	d->url = strncmp(s->sockets[0].name, "unix:", 5) == 0
		? xstrdup(s->sockets[0].name)
		: xasprintf("%s%s%s%s", s->sockets[0].name, slash, a->prefix ? a->prefix : "",
			  n && a->prefix[n - 1] == '/' ? "" : "/");
	if (s->sockets[2].fd >= 0)
		d->socket = xstrdup(s->sockets[2].name + strlen("unix:"));
	strv_add_all(&d->roots, &s->web.roots);
}

static void tick(void *ctx)
{
	struct web *w = ctx;

	judge_tick(w->judge);
	api_wake(w);
}

static void fill_wish(const struct args *a, struct running *s)
{
	s->tokens[0] = s->web.token[WEB_SCRIPTS];
	s->tokens[1] = s->web.token[WEB_PAGES];
	s->wish = (struct http_wish){ .tokens = s->tokens,
		.hosts = a->hosts.n ? (const char *const *)a->hosts.v : NULL,
		.fields = api_fields,
		.threads = 1,
		.connections = CONNECTIONS_MAX,
		.body = BODY_MAX,
		.memory = (size_t)64 << 20,
		.state = api_state,
		.idle_ms = 60000,
		.request_ms = 30000,
		.head = api_head,
		.answer = api_answer,
		.fail = api_fail,
		.done = api_done,
		.ctx = &s->web };
}

static int start(const struct args *a, struct running *s, struct mlr_error *err)
{
	struct web *w = &s->web;
	struct account me = { 0 };

	gethostname(w->node, sizeof(w->node) - 1);
	account_find_user(getuid(), &me);
	w->user = me.user ? xstrdup(me.user) : xasprintf("%u", (unsigned)getuid());
	account_done(&me);
	w->read_only = a->read_only;
	w->asked_ms = mlr_now_ms();
	pthread_mutex_init(&w->lock, NULL);
	TRY(find_roots(a, w, err));
	TRY(server_make(&s->server, err));
	w->keys = xasprintf("%s/keys", s->server.directory);
	server_random(w->token[WEB_SCRIPTS]);
	server_random(w->token[WEB_PAGES]);
	TRY(listen_at(a, s, err));
	describe(a, s);
	w->index = index_new(&w->roots, tick, w);
	w->act = act_new(w->index, &w->roots);
	TRY(judge_open(w->index, &w->judge, err));
	TRY(index_start(w->index, err));
	TRY(http_readers_open(4, &w->readers, err));
	fill_wish(a, s);
	TRY(http_open(&s->wish, &s->use, s->sockets, SOCKETS, &s->http, err));
	TRY(server_write(&s->server, w->token[WEB_SCRIPTS], err));
	return print_link(&s->server, err);
}

/* Has nobody looked for so long? */
static int is_idle(struct running *s, double idle)
{
	struct web *w = &s->web;
	int has_streams;

	pthread_mutex_lock(&w->lock);
	has_streams = w->streams != NULL;
	pthread_mutex_unlock(&w->lock);
	return !has_streams && (double)(mlr_now_ms() - w->asked_ms) / 1000 >= idle;
}

static void serve(const struct args *a, struct running *s, const sigset_t *signals)
{
	const struct timespec step = { a->idle > 10 ? 5 : 1, 0 };
	int sig = 0;

	while (sig != SIGTERM && sig != SIGINT && sig != SIGHUP) {
		if (!a->idle)
			sigwait(signals, &sig);
		else if ((sig = sigtimedwait(signals, NULL, &step)) < 0 && is_idle(s, a->idle))
			break;
	}
}

static void end(struct running *s)
{
	struct web *w = &s->web;

	if (s->http && http_drain(s->http, DRAIN_MS) > 0) {
		/* A start may pull an image for minutes; it goes on, as runs do. */
		server_remove(&s->server);
		_exit(0);
	}
	http_readers_close(&w->readers);
	http_close(&s->http);
	index_close(&w->index);
	judge_close(&w->judge);
	free(w->act);
	server_remove(&s->server);
	server_done(&s->server);
	for (int i = 0; i < SOCKETS; i++)
		free(s->sockets[i].name);
	strv_done(&w->roots);
	free(w->keys);
	free(w->user);
}

static int refuse_root(const struct args *a)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (getuid() != 0 || a->allow_root)
		return 0;
	mlr_fail(&err, EPERM, "whoever has the link could do all that root can");
	mlr_hint(&err, "start it as an ordinary user, or with --allow-root");
	return fail(&err);
}

int main(int argc, char **argv)
{
	struct args a = { 0 };
	static struct running s;
	struct mlr_error err = MLR_ERROR_INIT;
	sigset_t signals;
	int status = 0;

	fds_open_standard();
	program_take_environment();
	mlr_log_init("mlrun");
	argp_err_exit_status = EXIT_FAILED;
	options_parse("mlrun web", argc - 1, argv + 1, &syntax, &a);
	if (a.operands.n == 1 &&
		(strcmp(a.operands.v[0], "link") == 0 || strcmp(a.operands.v[0], "list") == 0 ||
			strcmp(a.operands.v[0], "stop") == 0))
		status = each_server(&a);
	else if ((status = refuse_root(&a)) == 0) {
		/* All threads inherit the mask; this one takes the signals. */
		sigemptyset(&signals);
		sigaddset(&signals, SIGTERM);
		sigaddset(&signals, SIGINT);
		sigaddset(&signals, SIGHUP);
		sigprocmask(SIG_BLOCK, &signals, NULL);
		signal(SIGPIPE, SIG_IGN);
		if (start(&a, &s, &err) < 0)
			status = fail(&err);
		else
			serve(&a, &s, &signals);
		end(&s);
	}
	strv_done(&a.operands);
	strv_done(&a.hosts);
	return status;
}
