/* mltrain load: puts load on an HTTP server. */
#include "base/base.h"
#include "cli/load_args.h"
#include "cli/mltrain.h"
#include "load/stream.h"
#include "load/summary.h"
#include "report/traffic_page.h"

#include <openssl/ssl.h>
#include <sys/ioctl.h>

#define EXIT_THRESHOLD 99 /* as k6 */
#define TOKEN_MAX      8192

static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	stop = sig;
}

/* The first signal ends the run, a second one the program. */
static void catch_signals(void)
{
	const int caught[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction was, sa = { .sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND };

	for (size_t i = 0; i < ARRAY_LEN(caught); i++)
		if (sigaction(caught[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(caught[i], &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* --- the live line ---------------------------------------------------------------------- */

static int line_drawn;

static void clear_line(void)
{
	if (line_drawn)
		fputs("\r\033[K", stderr);
	line_drawn = 0;
}

static void draw_line(void *ctx, const struct results *r, const struct results_row *row)
{
	const struct load_options *o = ctx;
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
	int r;

	if (strcmp(path, "-") != 0)
		return file_put(path, text, len, 0666, err);
	r = file_write_all(STDOUT_FILENO, text, len);
	return r < 0 ? mlr_fail(err, -r, "write to stdout: %s", strerror(-r)) : 0;
}

/* The page of one run, made of its record: as `mltrain report` makes it. */
static int put_page(const char *path, const char *record, size_t len, struct mlr_error *err)
{
	auto_call(traffic_done) struct traffic t = TRAFFIC_INIT;
	auto_free char *text = NULL;
	size_t size;
	int r = traffic_parse(&t, record, len, "the results", err);
	FILE *f = r < 0 ? NULL : open_memstream(&text, &size);

	if (r < 0)
		return r;
	if (!f)
		mlr_oom();
	traffic_page_write(f, &t);
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

/* What a run needs, and lets go of in the end. */
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
	int r = target_parse(a->url, &n->target, err);

	if (r == 0)
		r = target_find(&n->target, err);
	if (r == 0 && a->token_file)
		r = read_token(a->token_file, &n->token, err);
	if (r == 0 && a->images)
		r = pictures_read(a->images, a->known, &n->pictures, err);
	if (r == 0 && n->target.tls)
		r = stream_tls_new(a->cacert, a->verify, &n->tls, err);
	if (r < 0)
		return r;
	*q = (struct request_options){ &n->target, a->method, &a->headers, n->token, a->bodies,
		a->n_bodies, a->images ? &n->pictures : NULL, a->cache_rate, a->seed, a->close };
	return requests_new(q, &n->requests, err);
}

static int all_kept(const struct load_args *a, const struct results *r)
{
	for (size_t i = 0; i < a->n_thresholds; i++)
		if (!threshold_kept(&a->thresholds[i], r))
			return 0;
	return 1;
}

/* Returns the exit status, or a negative errno. */
static int run(struct load_args *a, struct mlr_error *err)
{
	auto_call(needs_done) struct needs needs = { .target = TARGET_INIT };
	auto_call(results_done) struct results results;
	struct mlr_error why = MLR_ERROR_INIT;
	struct request_options q;
	struct load_options o;
	struct summary s;
	int r, told;

	results_init(&results);
	TRY(prepare(a, &needs, &q, err));
	o = (struct load_options){ &needs.target, needs.tls, needs.requests, a->stages, a->rate,
		a->seconds, a->connections, a->connections_max, a->think_s, a->timeout_s,
		LOAD_GRACE_S, a->close, a->checks, a->n_checks, &stop,
		a->quiet || !is_terminal() ? NULL : draw_line, &o };
	s = (struct summary){ &o, &results, a->url, a->name ? a->name : a->url, a->thresholds,
		a->n_thresholds, a->cache_rate, (double)time(NULL), a->images, 0 };
	r = load_run(&o, &results, &why);
	clear_line();
	s.interrupted = r == -EINTR;
	if (r == -EMFILE)
		return mlr_pass(err, EMFILE, why.text);
	told = tell(a, &s, err);
	if (told < 0)
		return told;
	if (s.interrupted)
		return 128 + stop;
	if (r < 0)
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
	catch_signals();
	r = run(&a, &err);
	load_args_done(&a);
	if (r >= 0)
		return r;
	mlr_wrap(&err, "load");
	mlr_log_error(&err);
	return EXIT_BROKEN;
}
