#include "registry/http.h"

#include "base/authorities.h"
#include "config.h"
#include "registry/fault.h"
#include "registry/header.h"
#include "registry/url.h"

#include <curl/curl.h>

#define BUFFER_SIZE   (512 * 1024) /* bytes that libcurl reads at once */
#define REDIRECTS_MAX 5
#define PROBLEM_MAX   16384
#define REST_MAX      (1u << 20)   /* bytes of an error body that are read but not kept */
#define HEADERS_MAX   (300u << 10) /* bytes; libcurl's own limit ignores headers after a body */
#define PACE_BYTES    1024         /* within the timeout: a slower transfer counts as stalled */
#define CA_MAX        (8 << 20)    /* bytes of a file of CA certificates */
#define IDLE_MAX      32           /* handles kept for reuse */
#define CONNECTIONS   2L           /* per handle: to the registry and to its storage */

struct http {
	struct http_options opt;
	char *ca_file; /* NULL: libcurl's own */
	char *ca_blob; /* the CA certificates in use with opt's ca, PEM; NULL if there is none */
	int has_authorities;
	char *client_cert, *client_key, *certs_hint;
	pthread_mutex_t lock;
	CURL *idle[IDLE_MAX];
	size_t n_idle;
};

/* The state shared by one request's callbacks. */
struct transfer {
	struct http *http;
	struct http_exchange *x;
	const char *url;
	int64_t alive_ms; /* when the last PACE_BYTES had arrived */
	int64_t last_ms;  /* when the last byte had */
	int64_t end_ms;   /* the time limit, 0: none */
	int64_t stall_ms; /* and that without a byte */
	size_t paced;     /* bytes since alive_ms */
	size_t header_len;
	int connected; /* before that, libcurl's own time limit applies */
	int answered;  /* a final status arrived, not a 1xx */
	int stalled, late, cancelled;
	size_t problem_len, rest_len; /* bytes kept, and bytes dropped */
	int sink_result; /* the sink's or source's error or one of ours, described in *sink_err */
	struct mlr_error *sink_err;
	char words[CURL_ERROR_SIZE];
};

static int is_cancelled(const struct http *h)
{
	return h->opt.cancelled && h->opt.cancelled(h->opt.cancelled_ctx);
}

int http_sleep(struct http *h, int64_t ms, struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + ms, left;

	while ((left = end - mlr_now_ms()) > 0) {
		if (is_cancelled(h))
			return mlr_fail(err, ECANCELED, "interrupted");
		mlr_sleep_ms(left < 100 ? left : 100);
	}
	return 0;
}

/* Borrow a handle: its settings are reset, its connections stay open. */
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

/* A slow trickle of bytes must not hold us for ever if there is no time limit. */
static void note_arrival(struct transfer *t, size_t len)
{
	t->last_ms = mlr_now_ms();
	t->paced += len;
	if (t->paced < PACE_BYTES && t->end_ms == 0)
		return;
	t->paced = 0;
	t->alive_ms = t->last_ms;
}

static size_t refuse_headers(struct transfer *t)
{
	auto_free char *host = url_authority(t->url);

	t->sink_result = mlr_fail(
		t->sink_err, EPROTO, "'%s' sends more than %u bytes of headers", host, HEADERS_MAX);
	return 0;
}

static size_t on_header(char *line, size_t one, size_t len, void *ctx)
{
	struct transfer *t = ctx;

	note_arrival(t, len);
	t->header_len += len;
	if (t->header_len > HEADERS_MAX)
		return refuse_headers(t);
	if (!header_take(t->x, line, len))
		return len;
	t->problem_len = t->rest_len = 0;
	/* The start of the response counts as progress, once. */
	if (!t->answered && t->x->status >= 200) {
		t->answered = 1;
		t->alive_ms = t->last_ms;
	}
	return len;
}

/* A redirect counts only once its body has been read completely. */
static size_t keep_problem(struct transfer *t, const char *buf, size_t len)
{
	size_t n = PROBLEM_MAX - t->problem_len < len ? PROBLEM_MAX - t->problem_len : len;

	if (!t->x->problem)
		t->x->problem = xcalloc(1, PROBLEM_MAX + 1);
	memcpy(t->x->problem + t->problem_len, buf, n);
	t->problem_len += n;
	t->rest_len += len - n;
	return t->rest_len <= REST_MAX ? len : 0; /* ends the transfer: we need no more */
}

static size_t on_body(char *buf, size_t one, size_t len, void *ctx)
{
	struct transfer *t = ctx;
	int64_t before;
	int r;

	note_arrival(t, len);
	if (t->x->status != 200 && t->x->status != 206)
		return keep_problem(t, buf, len);
	if (!t->x->sink)
		return len;
	before = t->last_ms;
	r = t->x->sink(t->x->sink_ctx, buf, len, t->sink_err);
	t->last_ms = mlr_now_ms();
	t->alive_ms += t->last_ms - before; /* time spent in the sink is not a stall */
	if (r < 0) {
		t->sink_result = r;
		return CURL_WRITEFUNC_ERROR;
	}
	return len;
}

/* Waiting for our own bytes is not a stall, and each that leaves is progress. */
static size_t on_source(char *buf, size_t one, size_t room, void *ctx)
{
	struct transfer *t = ctx;
	int64_t before = mlr_now_ms();
	ssize_t n = t->x->body->read(t->x->body->ctx, buf, one * room, t->sink_err);

	if (n < 0) {
		t->sink_result = (int)n;
		return CURL_READFUNC_ABORT;
	}
	t->alive_ms += mlr_now_ms() - before;
	note_arrival(t, (size_t)n);
	return (size_t)n;
}

/* The request is about to be sent. */
static int on_connected(void *ctx, char *ip, char *local_ip, int port, int local_port)
{
	struct transfer *t = ctx;

	t->connected = 1;
	t->alive_ms = t->last_ms = mlr_now_ms();
	return CURL_PREREQFUNC_OK;
}

static int on_progress(
	void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
	struct transfer *t = ctx;
	int64_t ms = mlr_now_ms();

	t->cancelled = is_cancelled(t->http);
	t->stalled = t->connected && ms - t->alive_ms > t->stall_ms;
	t->late = t->end_ms != 0 && ms > t->end_ms;
	return t->cancelled || t->stalled || t->late;
}

/* Set the CA certificates to trust and, only for the registry, our own certificate. */
static void set_tls(CURL *c, const struct http *h, int is_registry)
{
	struct curl_blob blob = { h->ca_blob, h->ca_blob ? strlen(h->ca_blob) : 0,
		CURL_BLOB_NOCOPY };

	if (h->ca_file || !h->has_authorities)
		curl_easy_setopt(c, CURLOPT_CAINFO, h->ca_file);
	if (h->ca_file)
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	if (h->ca_blob)
		curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &blob);
	if (!h->opt.tls_verify) {
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	/* The handle may have been used for the registry before. */
	curl_easy_setopt(c, CURLOPT_SSLCERT, is_registry ? h->client_cert : NULL);
	curl_easy_setopt(c, CURLOPT_SSLKEY, is_registry ? h->client_key : NULL);
}

/* Connections to this machine bypass proxies, as in Go and therefore in similar programs. */
static void set_connection(CURL *c, const struct http *h, const char *url)
{
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)h->opt.connect_ms);
	curl_easy_setopt(c, CURLOPT_MAXCONNECTS, CONNECTIONS);
	curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)BUFFER_SIZE);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "mlrun/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(c, CURLOPT_PROXY, url_is_loopback(url) ? "" : NULL);
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
	curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(c, CURLOPT_PREREQDATA, t);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->words);
}

static struct curl_slist *make_headers(const struct http_exchange *x, int with_authorization)
{
	struct curl_slist *list = NULL;

	if (x->accept) {
		auto_free char *accept = xasprintf("Accept: %s", x->accept);

		list = curl_slist_append(list, accept);
	}
	if (x->authorization && with_authorization) {
		auto_free char *auth = xasprintf("Authorization: %s", x->authorization);

		list = curl_slist_append(list, auth);
		explicit_bzero(auth, strlen(auth));
	}
	if (x->body) {
		auto_free char *type = xasprintf("Content-Type: %s", x->body->type);
		auto_free char *range = xasprintf("Content-Range: %s", x->body->range);

		list = curl_slist_append(list, type);
		if (*x->body->range)
			list = curl_slist_append(list, range);
		list = curl_slist_append(list, "Expect:"); /* it would cost a round trip */
	} else if (x->method) {
		list = curl_slist_append(list, "Content-Type:"); /* not a form's */
	}
	if (x->from > 0) {
		auto_free char *range =
			xasprintf("Range: bytes=%llu-", (unsigned long long)x->from);

		list = curl_slist_append(list, range);
	}
	return list;
}

/* Report libcurl's result. */
static int fail(CURL *c, CURLcode code, struct transfer *t, const char *url, struct mlr_error *err)
{
	const struct fault f = { c, code, t->words, url, t->http->certs_hint,
		t->http->has_authorities };
	auto_free char *host = url_authority(url);

	if (t->cancelled)
		return mlr_fail(err, ECANCELED, "interrupted");
	t->x->transient = 1;
	if (t->stalled && mlr_now_ms() - t->last_ms > t->stall_ms)
		return mlr_fail(err, ETIMEDOUT, "'%s' %s nothing for %lld s", host,
			t->x->body ? "took" : "sent", (long long)t->stall_ms / 1000);
	if (t->stalled)
		return mlr_fail(err, ETIMEDOUT, "'%s' %s less than %d bytes in %lld s", host,
			t->x->body ? "took" : "sent", PACE_BYTES, (long long)t->stall_ms / 1000);
	if (t->late) {
		t->x->transient = 0; /* the time limit is used up */
		return mlr_fail(err, ETIMEDOUT, "'%s' took more than %lld s for a small answer",
			host, (long long)t->x->total_ms / 1000);
	}
	return fault_fail(&f, t->x, err);
}

static const char *method_of(const struct http_exchange *x)
{
	return x->method ? x->method : x->post ? "POST" : x->head ? "HEAD" : "GET";
}

static void set_method(CURL *c, const struct http_exchange *x, struct transfer *t)
{
	if (x->post) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, x->post);
	} else if (x->body) {
		curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c, CURLOPT_READFUNCTION, on_source);
		curl_easy_setopt(c, CURLOPT_READDATA, t);
		curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_SIZE);
		curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->body->length);
	} else if (x->method) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
	} else {
		curl_easy_setopt(c, CURLOPT_NOBODY, (long)x->head);
	}
	if (x->method)
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, x->method);
}

/* A request that changes something is repeated elsewhere only if that is asked for in so many
 * words (RFC 9110, 15.4). */
static int follows(const struct http_exchange *x)
{
	if (x->post || x->body)
		return 0;
	return x->method ? x->status == 307 || x->status == 308
			 : x->status >= 301 && x->status <= 308;
}

/* Send one request and get its response; *next is a redirect's target, or NULL. */
static int request(struct http *h, CURL *c, struct http_exchange *x, const char *url, char **next,
	struct mlr_error *err)
{
	struct transfer t = {
		.http = h, .x = x, .url = url, .alive_ms = mlr_now_ms(), .sink_err = err
	};
	struct curl_slist *headers = make_headers(x, url_same_origin(url, x->url));
	curl_off_t length = -1, wait = 0;
	char *location = NULL;
	CURLcode code;

	header_forget(x);
	t.end_ms = x->total_ms ? t.alive_ms + x->total_ms : 0;
	t.stall_ms = x->stall_ms ? x->stall_ms : h->opt.stall_ms;
	set_connection(c, h, url);
	set_tls(c, h, url_same_origin(url, x->base));
	set_callbacks(c, &t);
	set_method(c, x, &t);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	/* Log no query: it may be a signature that gives anyone access to the blob. */
	mlr_debug("%s %.*s%s", method_of(x), (int)strcspn(url, "?"), url,
		x->from ? " (resumed)" : "");
	code = curl_easy_perform(c);
	curl_slist_free_all(headers);
	if (t.sink_result < 0)
		return t.sink_result;
	/* An error page too long to read completely is no error of its own. */
	if (code == CURLE_WRITE_ERROR && t.rest_len > REST_MAX)
		code = CURLE_OK;
	if (code != CURLE_OK)
		return fail(c, code, &t, url, err);

	curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &wait);
	curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &location);
	x->length = length;
	x->retry_after = wait > 0 ? wait : -1;
	mlr_debug("%d, %lld bytes", x->status, (long long)length);
	if (x->quota_left)
		mlr_debug("pulls left: %s of %s", x->quota_left, x->quota ? x->quota : "?");
	if (location && follows(x))
		*next = xstrdup(location);
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
		set_ptr(&url, next);
		if (hops == REDIRECTS_MAX)
			return mlr_fail(err, ELOOP, "more than %d redirects, the last to '%.*s'",
				REDIRECTS_MAX, (int)strcspn(url, "?"), url);
		TRY(url_check_redirect(url, x->base, err));
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
	header_forget(x);
}

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static char *copy(const char *s)
{
	return s && *s ? xstrdup(s) : NULL;
}

/* The file of certificates to trust; NULL if libcurl knows better. */
static char *find_ca(void)
{
	char *own = copy(getenv("SSL_CERT_FILE"));

	return own ? own : copy(authorities_instead_of(curl_version_info(CURLVERSION_NOW)->cainfo));
}

/* The system's certificates together with opt's. Without the former, a registry's redirects to
 * other hosts would be refused. */
static char *join_ca(const char *usual, const char *ca)
{
	const char *path = usual ? usual : curl_version_info(CURLVERSION_NOW)->cainfo;
	auto_free char *text = NULL;

	if (path && file_read(AT_FDCWD, path, CA_MAX, &text, NULL, NULL) < 0)
		mlr_debug("cannot read the CA certificates '%s'", path);
	return xasprintf("%s\n%s", text ? text : "", ca);
}

struct http *http_new(const struct http_options *opt)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct http *h = xcalloc(1, sizeof(*h));

	pthread_once(&once, global_init);
	h->opt = *opt;
	h->ca_file = find_ca();
	h->ca_blob = opt->ca ? join_ca(h->ca_file, opt->ca) : NULL;
	/* Without any, libcurl would refuse plain HTTP, too, where https is tried first. */
	h->has_authorities = h->ca_file || opt->ca || authorities_file();
	h->client_cert = copy(opt->client_cert);
	h->client_key = copy(opt->client_key);
	h->certs_hint = copy(opt->certs_hint);
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
	free(h->ca_blob);
	free(h->client_cert);
	free(h->client_key);
	free(h->certs_hint);
	free(h);
}
