#include "registry/http.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "config.h"
#include "registry/url.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define BUFFER_SIZE   (512 * 1024) /* bytes libcurl reads at once */
#define CONNECT_MS    20000
#define REDIRECTS_MAX 5
#define PROBLEM_MAX   16384
#define IDLE_MAX      16 /* handles kept */

struct http {
	struct http_options opt;
	char *ca_file; /* NULL: libcurl's own */
	pthread_mutex_t lock;
	CURL *idle[IDLE_MAX];
	size_t n_idle;
};

/* What the callbacks of one request share. */
struct transfer {
	struct http *http;
	struct http_exchange *x;
	int64_t alive_ms; /* when something last arrived */
	curl_off_t seen;
	int stalled, cancelled;
	size_t problem_len;
	int sink_result; /* the sink's failure, told in *sink_err */
	struct mlr_error *sink_err;
	char words[CURL_ERROR_SIZE];
};

int64_t http_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int is_cancelled(const struct http *h)
{
	return h->opt.cancelled && h->opt.cancelled(h->opt.cancelled_ctx);
}

int http_sleep(struct http *h, int64_t ms, struct mlr_error *err)
{
	int64_t end = http_now_ms() + ms, left;

	while ((left = end - http_now_ms()) > 0) {
		struct timespec t = { 0, (long)(left < 100 ? left : 100) * 1000000 };

		if (is_cancelled(h))
			return mlr_fail(err, ECANCELED, "interrupted");
		nanosleep(&t, NULL);
	}
	return 0;
}

/* Borrow a handle; its settings are those of a new one, its connections stay open. */
static CURL *take_handle(struct http *h)
{
	CURL *c = NULL;

	pthread_mutex_lock(&h->lock);
	if (h->n_idle > 0)
		c = h->idle[--h->n_idle];
	pthread_mutex_unlock(&h->lock);
	if (!c)
		c = curl_easy_init();
	if (!c)
		mlr_oom();
	return c;
}

static void give_handle(struct http *h, CURL *c)
{
	curl_easy_reset(c);
	pthread_mutex_lock(&h->lock);
	if (h->n_idle < IDLE_MAX) {
		h->idle[h->n_idle++] = c;
		c = NULL;
	}
	pthread_mutex_unlock(&h->lock);
	curl_easy_cleanup(c);
}

static void forget_response(struct http_exchange *x)
{
	free(x->content_type);
	free(x->authenticate);
	free(x->digest);
	free(x->problem);
	x->content_type = x->authenticate = x->digest = x->problem = NULL;
	x->status = 0;
	x->length = x->retry_after = -1;
	x->first = 0;
}

/* The value of a header line when it is the one named, to free(). */
static char *header_value(const char *line, size_t len, const char *name)
{
	size_t n = strlen(name);

	if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
		return NULL;
	line += n + 1;
	len -= n + 1;
	while (len > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		len--;
	}
	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
		len--;
	return xstrndup(line, len);
}

static void keep(char **slot, char *value)
{
	free(*slot);
	*slot = value;
}

/* Several lines of one header are one list (RFC 9110, 5.3). */
static void append(char **slot, char *value)
{
	if (*slot && strlen(*slot) < 8192) {
		char *both = xasprintf("%s, %s", *slot, value);

		free(value);
		value = both;
	}
	keep(slot, value);
}

static size_t on_header(char *line, size_t one, size_t len, void *ctx)
{
	struct transfer *t = ctx;
	struct http_exchange *x = t->x;
	auto_free char *range = NULL;
	char *v;

	(void)one;
	t->alive_ms = http_now_ms();
	if (len > 5 && strncmp(line, "HTTP/", 5) == 0) {
		forget_response(x);
		t->problem_len = 0;
		sscanf(line, "HTTP/%*s %d", &x->status);
	} else if ((v = header_value(line, len, "Content-Type"))) {
		keep(&x->content_type, v);
	} else if ((v = header_value(line, len, "WWW-Authenticate"))) {
		append(&x->authenticate, v);
	} else if ((v = header_value(line, len, "Docker-Content-Digest"))) {
		keep(&x->digest, v);
	} else if ((range = header_value(line, len, "Content-Range"))) {
		unsigned long long first;

		/* Anything else leaves UINT64_MAX, which no request asks for. */
		x->first = sscanf(range, "bytes %llu-", &first) == 1 ? first : UINT64_MAX;
	}
	return len;
}

static size_t keep_problem(struct transfer *t, const char *buf, size_t len)
{
	size_t n = PROBLEM_MAX - t->problem_len < len ? PROBLEM_MAX - t->problem_len : len;

	if (!t->x->problem)
		t->x->problem = xcalloc(1, PROBLEM_MAX + 1);
	memcpy(t->x->problem + t->problem_len, buf, n);
	t->problem_len += n;
	return n; /* fewer than len ends the transfer: more is not wanted */
}

static size_t on_body(char *buf, size_t one, size_t len, void *ctx)
{
	struct transfer *t = ctx;
	int r;

	(void)one;
	if (t->x->status != 200 && t->x->status != 206)
		return keep_problem(t, buf, len);
	r = t->x->sink(t->x->sink_ctx, buf, len, t->sink_err);
	t->alive_ms = http_now_ms(); /* a sink that took its time is no stall */
	if (r < 0) {
		t->sink_result = r;
		return CURL_WRITEFUNC_ERROR;
	}
	return len;
}

static int on_progress(
	void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
	struct transfer *t = ctx;
	int64_t ms = http_now_ms();

	(void)total;
	(void)up_total;
	(void)up;
	if (now != t->seen) {
		t->seen = now;
		t->alive_ms = ms;
	}
	t->cancelled = is_cancelled(t->http);
	t->stalled = ms - t->alive_ms > t->http->opt.stall_ms;
	return t->cancelled || t->stalled;
}

/* Connections to this machine never go through a proxy, as in Go's and so in every peer's world. */
static void set_connection(CURL *c, const struct http *h, const char *url)
{
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)BUFFER_SIZE);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "mlrun/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	if (url_is_loopback(url))
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (h->ca_file)
		curl_easy_setopt(c, CURLOPT_CAINFO, h->ca_file);
	if (!h->opt.tls_verify) {
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	}
}

static void set_callbacks(CURL *c, struct transfer *t)
{
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->words);
}

static struct curl_slist *make_headers(const struct http_exchange *x, int with_bearer)
{
	struct curl_slist *list = NULL;

	if (x->accept) {
		auto_free char *accept = xasprintf("Accept: %s", x->accept);

		list = curl_slist_append(list, accept);
	}
	if (x->bearer && with_bearer) {
		auto_free char *auth = xasprintf("Authorization: Bearer %s", x->bearer);

		list = curl_slist_append(list, auth);
	}
	if (x->from > 0) {
		auto_free char *range =
			xasprintf("Range: bytes=%llu-", (unsigned long long)x->from);

		list = curl_slist_append(list, range);
	}
	return list;
}

static int fail_tls(const char *host, CURLcode code, const char *words, struct mlr_error *err)
{
	if (code == CURLE_SSL_CONNECT_ERROR) {
		mlr_fail(err, EPROTO, "TLS with '%s' failed: %s", host, words);
		return mlr_hint(err, "a registry that speaks plain HTTP needs --tls-verify=false");
	}
	mlr_fail(err, EPERM, "the certificate of '%s' is not trusted: %s", host, words);
	return mlr_hint(err,
		"name the site's CA certificates in SSL_CERT_FILE, or give up the check "
		"with --tls-verify=false");
}

static int fail_connect(CURL *c, const char *host, struct http_exchange *x, struct mlr_error *err)
{
	long code = 0;

	curl_easy_getinfo(c, CURLINFO_OS_ERRNO, &code);
	if (code <= 0)
		code = ECONNREFUSED;
	x->unreached = 1;
	mlr_fail(err, (int)code, "cannot connect to '%s': %s", host, strerror((int)code));
	return mlr_hint(err,
		"is a registry running there, and is it the right port? Behind a proxy set "
		"https_proxy");
}

/* Say what libcurl's result means. */
static int fail(CURL *c, CURLcode code, struct transfer *t, const char *url, struct mlr_error *err)
{
	auto_free char *host = url_authority(url);
	const char *words = *t->words ? t->words : curl_easy_strerror(code);
	struct http_exchange *x = t->x;

	if (t->cancelled)
		return mlr_fail(err, ECANCELED, "interrupted");
	x->transient = 1;
	if (t->stalled)
		return mlr_fail(err, ETIMEDOUT, "'%s' sent nothing for %d s", host,
			t->http->opt.stall_ms / 1000);

	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		x->unreached = 1;
		mlr_fail(err, EHOSTUNREACH, "cannot find the host: %s", words);
		return mlr_hint(err,
			"check the registry's name and this machine's DNS; behind a proxy set "
			"https_proxy");
	case CURLE_COULDNT_CONNECT:
		return fail_connect(c, host, x, err);
	case CURLE_OPERATION_TIMEDOUT:
		x->unreached = 1;
		return mlr_fail(err, ETIMEDOUT, "'%s' does not answer: %s", host, words);
	case CURLE_SSL_CONNECT_ERROR:
		x->other_protocol = 1;
		x->transient = 0;
		return fail_tls(host, code, words, err);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		x->transient = 0;
		return fail_tls(host, code, words, err);
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9: bytes that are no HTTP */
	case CURLE_WEIRD_SERVER_REPLY:
		x->other_protocol = 1;
		x->transient = 0;
		return mlr_fail(err, EPROTO, "'%s' does not speak HTTP: %s", host, words);
	default:
		x->other_protocol = x->status == 0;
		return mlr_fail(err, ECONNRESET, "the connection to '%s' broke: %s", host, words);
	}
}

/* One request and its response; *next is where a redirect leads, or NULL. */
static int request(struct http *h, CURL *c, struct http_exchange *x, const char *url, char **next,
	struct mlr_error *err)
{
	struct transfer t = { .http = h, .x = x, .alive_ms = http_now_ms(), .sink_err = err };
	struct curl_slist *headers = make_headers(x, url_same_origin(url, x->url));
	curl_off_t length = -1, wait = 0;
	char *location = NULL;
	CURLcode code;

	forget_response(x);
	set_connection(c, h, url);
	set_callbacks(c, &t);
	curl_easy_setopt(c, CURLOPT_NOBODY, (long)x->head);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	/* What follows the '?' may be a signature that opens the blob to anyone. */
	mlr_debug("%s %.*s%s", x->head ? "HEAD" : "GET", (int)strcspn(url, "?"), url,
		x->from ? " (resumed)" : "");
	code = curl_easy_perform(c);
	curl_slist_free_all(headers);
	if (t.sink_result < 0)
		return t.sink_result;
	/* An error page that is too long to keep has done its duty. */
	if (code == CURLE_WRITE_ERROR && t.problem_len == PROBLEM_MAX)
		code = CURLE_OK;
	if (code != CURLE_OK)
		return fail(c, code, &t, url, err);

	curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &wait);
	curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &location);
	x->length = length;
	x->retry_after = wait > 0 ? wait : -1;
	mlr_debug("%d, %lld bytes", x->status, (long long)length);
	*next = x->status >= 301 && x->status <= 308 && location ? xstrdup(location) : NULL;
	return 0;
}

static int follow(struct http *h, CURL *c, struct http_exchange *x, struct mlr_error *err)
{
	auto_free char *url = xstrdup(x->url);

	for (int hops = 0;; hops++) {
		char *next = NULL;
		int r = request(h, c, x, url, &next, err);

		if (r < 0 || !next)
			return r;
		free(url);
		url = next;
		if (hops == REDIRECTS_MAX)
			return mlr_fail(err, ELOOP, "more than %d redirects, the last to '%.200s'",
				REDIRECTS_MAX, url);
		r = url_check_redirect(url, x->base, err);
		if (r < 0)
			return r;
		x->redirected = !url_same_origin(url, x->url);
	}
}

int http_perform(struct http *h, struct http_exchange *x, struct mlr_error *err)
{
	CURL *c = take_handle(h);
	int r;

	x->transient = x->unreached = x->other_protocol = x->redirected = 0;
	r = follow(h, c, x, err);
	give_handle(h, c);
	return r;
}

void http_exchange_done(struct http_exchange *x)
{
	forget_response(x);
}

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct http *http_new(const struct http_options *opt)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct http *h = xcalloc(1, sizeof(*h));
	const char *ca = getenv("SSL_CERT_FILE");

	pthread_once(&once, global_init);
	h->opt = *opt;
	h->ca_file = ca && *ca ? xstrdup(ca) : NULL;
	pthread_mutex_init(&h->lock, NULL);
	return h;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_idle; i++)
		curl_easy_cleanup(h->idle[i]);
	pthread_mutex_destroy(&h->lock);
	free(h->ca_file);
	free(h);
}
