/*
 * Downloads one URL into one file with libcurl and continues interrupted downloads.
 *
 * .NAME.part holds the bytes until the file is complete. .NAME.part.from records the URL and the
 * version (ETag or Last-Modified). The rest is requested with Range and If-Range (RFC 9110,
 * sections 13.1.5 and 14.2), so that the download of a file that has changed begins anew. Proxies
 * come from curl's environment variables (curl(1), "ENVIRONMENT").
 */
#include "data/fetch.h"

#include "config.h"

#include <curl/curl.h>
#include <poll.h>

#define STALL_S  60
#define PAUSE_MS 1000
#define QUICK_MS 100                 /* where bytes came */
#define PROGRESS ((uint64_t)1 << 20) /* so many bytes more, and tries are counted anew */
#define FROM_MAX ((size_t)64 << 10)

/* A request. */
struct transfer {
	const struct download *d;
	const char *url;
	char *shown; /* the URL in messages */
	CURL *curl;
	struct curl_slist *headers;
	int fd;                 /* the part */
	uint64_t have;          /* bytes in it */
	uint64_t from;          /* those from before this request */
	char *version;          /* the version of the part, if only the rest is requested */
	int begun;              /* the body began: the part now belongs to this version */
	struct mlr_error error; /* our own error, which ends the transfer */
	char words[CURL_ERROR_SIZE];
};

char *download_part(const char *name)
{
	return xasprintf(".%s.part", name);
}

static char *from_name(const char *name)
{
	return xasprintf(".%s.part.from", name);
}

char *download_shown(const char *url)
{
	const char *host = strstr(url, "://"), *end, *at = NULL;

	if (!host)
		return xstrdup(url);
	host += 3;
	end = host + strcspn(host, "/?#");
	for (const char *p = host; p < end; p++)
		if (*p == '@')
			at = p + 1;
	return at ? xasprintf("%.*s%s", (int)(host - url), url, at) : xstrdup(url);
}

void download_drop(int dirfd, const char *name)
{
	auto_free char *part = download_part(name), *from = from_name(name);

	unlinkat(dirfd, part, 0);
	unlinkat(dirfd, from, 0);
}

/* --- callbacks of curl ---------------------------------------------------------- */

/* A header of the latest answer, "" if it has none. */
static const char *header_of(const struct transfer *t, const char *name)
{
	struct curl_header *h;

	return curl_easy_header(t->curl, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value
										     : "";
}

static long status_of(const struct transfer *t)
{
	long status = 0;

	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* Write two lines: the URL, which may contain a password, and the value of If-Range. */
static int write_from(const struct transfer *t, struct mlr_error *err)
{
	auto_free char *name = from_name(t->d->name), *text = NULL;
	const char *version = header_of(t, "ETag");

	/* A weak ETag does not promise equal bytes. */
	if (!*version || strncmp(version, "W/", 2) == 0)
		version = header_of(t, "Last-Modified");
	text = xasprintf("%s\n%s\n", t->url, version);
	return file_replace(t->d->dirfd, name, text, strlen(text), 0600, err);
}

/* Read the version of the part, to free(); NULL if it is unknown or of another URL. */
static char *read_from(const struct transfer *t)
{
	auto_free char *name = from_name(t->d->name), *text = NULL;
	char *version, *end;

	if (file_read(t->d->dirfd, name, FROM_MAX, &text, NULL, NULL) < 0)
		return NULL;
	version = strchr(text, '\n');
	if (!version)
		return NULL;
	*version++ = '\0';
	end = strchr(version, '\n');
	if (!end || end == version || strcmp(text, t->url) != 0)
		return NULL;
	*end = '\0';
	return xstrdup(version);
}

/* Does a 206 bring the rest of the same version? */
static int is_the_rest(const struct transfer *t)
{
	unsigned long long first;

	if (!t->from || sscanf(header_of(t, "Content-Range"), "bytes %llu-", &first) != 1 ||
		first != t->from)
		return 0;
	if (strcmp(header_of(t, "ETag"), t->version) == 0 ||
		strcmp(header_of(t, "Last-Modified"), t->version) == 0)
		return 1;
	return !*header_of(t, "ETag") && !*header_of(t, "Last-Modified");
}

/* Handle the body's first bytes: continue the part or begin it anew. */
static int begin(struct transfer *t)
{
	t->begun = 1;
	if (status_of(t) == 206) {
		if (is_the_rest(t))
			return 0;
		download_drop(t->d->dirfd, t->d->name);
		return mlr_fail(&t->error, t->from ? ESTALE : EPROTO,
			"the server sent another part than asked for");
	}
	t->from = t->have = 0;
	if (ftruncate(t->fd, 0) < 0)
		return mlr_fail_errno(&t->error, "write");
	return write_from(t, &t->error);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t len = size * n;
	long status = status_of(t);
	int r;

	if (status >= 300) /* an error's page */
		return len;
	if (!t->begun && begin(t) < 0)
		return 0;
	if (t->have + len > DOWNLOAD_BYTES_MAX) {
		mlr_fail(&t->error, EFBIG, "more than %llu bytes",
			(unsigned long long)DOWNLOAD_BYTES_MAX);
		return 0;
	}
	r = file_write_all(t->fd, bytes, len);
	if (mlr_result(&t->error, r, "write") < 0)
		return 0;
	t->have += len;
	return len;
}

static int on_progress(
	void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
	struct transfer *t = ctx;

	if (t->d->tell && t->begun)
		t->d->tell(
			t->d->ctx, t->d->name, t->have, total > 0 ? t->from + (uint64_t)total : 0);
	return 0;
}

/* --- one request ------------------------------------------------------------- */

static void set_options(struct transfer *t)
{
	CURL *c = t->curl;
	int is_https = strncasecmp(t->url, "https:", 6) == 0;

	curl_easy_setopt(c, CURLOPT_URL, t->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http,file");
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "https,http");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, t->d->stall_s ? t->d->stall_s : STALL_S);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "mltrain/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->words);
	if (t->d->cacert)
		curl_easy_setopt(c, CURLOPT_CAINFO, t->d->cacert);
}

static int is_http(const char *url)
{
	return strncasecmp(url, "http", 4) == 0;
}

/* Request what the part lacks. */
static struct curl_slist *ask_for_rest(struct transfer *t)
{
	auto_free char *header = NULL, *range = NULL;

	t->version = read_from(t);
	if (t->have && t->version && is_http(t->url)) {
		header = xasprintf("If-Range: %s", t->version);
		range = xasprintf("%llu-", (unsigned long long)t->have);
		t->from = t->have;
		curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
		return curl_slist_append(NULL, header);
	}
	t->have = 0;
	if (ftruncate(t->fd, 0) < 0)
		mlr_fail_errno(&t->error, "write");
	return NULL;
}

static const struct {
	CURLcode curl;
	int code;
	int again; /* worth another try */
} codes[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, EHOSTUNREACH, 0 },
	{ CURLE_COULDNT_RESOLVE_PROXY, EHOSTUNREACH, 0 },
	{ CURLE_COULDNT_CONNECT, ECONNREFUSED, 0 },
	{ CURLE_OPERATION_TIMEDOUT, ETIMEDOUT, 1 },
	{ CURLE_PARTIAL_FILE, ECONNRESET, 1 },
	{ CURLE_RECV_ERROR, ECONNRESET, 1 },
	{ CURLE_SEND_ERROR, ECONNRESET, 1 },
	{ CURLE_GOT_NOTHING, ECONNRESET, 1 },
	{ CURLE_HTTP2_STREAM, ECONNRESET, 1 },
	{ CURLE_HTTP2, ECONNRESET, 1 },
	{ CURLE_PEER_FAILED_VERIFICATION, EPERM, 0 },
	{ CURLE_SSL_CACERT_BADFILE, ENOENT, 0 },
	{ CURLE_FILE_COULDNT_READ_FILE, ENOENT, 0 },
	{ CURLE_UNSUPPORTED_PROTOCOL, EPROTO, 0 },
	{ CURLE_URL_MALFORMAT, EINVAL, 0 },
	{ CURLE_OUT_OF_MEMORY, ENOMEM, 0 },
};

static int fail_of_curl(const struct transfer *t, CURLcode r, int *again, struct mlr_error *err)
{
	int code = EPROTO;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].curl == r) {
			code = codes[i].code;
			*again = codes[i].again;
		}
	return mlr_fail(
		err, code, "%s: %s", t->shown, *t->words ? t->words : curl_easy_strerror(r));
}

static int fail_of_status(const struct transfer *t, long status, int *again, struct mlr_error *err)
{
	int code = status == 404 || status == 410 ? ENOENT
		: status == 401 || status == 403  ? EACCES
						  : EIO;

	*again = status == 408 || status == 416 || status == 429 || status >= 500;
	return mlr_fail(err, code, "%s: the server answered %ld", t->shown, status);
}

/* A 206 may bring less than requested (RFC 9110, 15.3.7); its Content-Range has the size. */
static int judge_206(const struct transfer *t, int *again, struct mlr_error *err)
{
	unsigned long long size;

	if (sscanf(header_of(t, "Content-Range"), "bytes %*u-%*u/%llu", &size) != 1 ||
		size == t->have)
		return 0;
	*again = 1;
	if (t->have > size)
		download_drop(t->d->dirfd, t->d->name);
	return mlr_fail(err, ECONNRESET, "%s: %llu of %llu bytes came", t->shown,
		(unsigned long long)t->have, size);
}

/*
 * After a 416 (RFC 9110, 15.5.17) the part is either already complete or belongs to another file.
 */
static int judge_416(const struct transfer *t, int *again, struct mlr_error *err)
{
	unsigned long long size;

	if (sscanf(header_of(t, "Content-Range"), "bytes */%llu", &size) == 1 && size == t->from &&
		t->from)
		return 0;
	download_drop(t->d->dirfd, t->d->name);
	return fail_of_status(t, 416, again, err);
}

static int judge(const struct transfer *t, CURLcode r, int *again, struct mlr_error *err)
{
	long status = status_of(t);

	if (t->error.code) {
		*again = t->error.code == ESTALE;
		*err = t->error;
		return mlr_wrap(err, "%s", t->shown);
	}
	if (r != CURLE_OK)
		return fail_of_curl(t, r, again, err);
	if (is_http(t->url) && status == 416)
		return judge_416(t, again, err);
	if (is_http(t->url) && status == 206)
		return judge_206(t, again, err);
	if (is_http(t->url) && status != 200)
		return fail_of_status(t, status, again, err);
	return 0;
}

static void transfer_done(struct transfer *t)
{
	curl_slist_free_all(t->headers);
	if (t->curl)
		curl_easy_cleanup(t->curl);
	fd_close(&t->fd);
	free(t->version);
	free(t->shown);
}

static int open_part(struct transfer *t, struct mlr_error *err)
{
	auto_free char *part = download_part(t->d->name);
	struct stat st;

	t->fd = openat(
		t->d->dirfd, part, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (t->fd < 0 || fstat(t->fd, &st) < 0)
		return mlr_fail_errno(err, "make '%s'", part);
	t->have = (uint64_t)st.st_size;
	return 0;
}

/* The result of a request. */
struct outcome {
	int again;           /* worth another try */
	uint64_t have, came; /* bytes in the part; came: those of this request */
};

static int request(
	const struct download *d, const char *url, struct outcome *ret, struct mlr_error *err)
{
	auto_call(transfer_done) struct transfer t = {
		.d = d, .url = url, .shown = download_shown(url), .fd = -1
	};
	CURLcode c;
	int r;

	*ret = (struct outcome){ 0 };
	TRY(open_part(&t, err));
	t.curl = curl_easy_init();
	if (!t.curl)
		return mlr_fail(err, ENOMEM, "%s: no memory", t.shown);
	set_options(&t);
	t.headers = ask_for_rest(&t);
	curl_easy_setopt(t.curl, CURLOPT_HTTPHEADER, t.headers);
	c = t.error.code ? CURLE_WRITE_ERROR : curl_easy_perform(t.curl);
	if (c == CURLE_OK && !t.begun && status_of(&t) == 200)
		begin(&t); /* an empty file has no first byte */
	ret->have = t.have;
	ret->came = t.have - t.from;
	r = judge(&t, c, &ret->again, err);
	if (r < 0 && !t.have)
		download_drop(d->dirfd, d->name);
	if (r < 0)
		return r;
	if (fsync(t.fd) < 0)
		return mlr_fail_errno(err, "%s: write", t.shown);
	return 0;
}

int download(const struct download *d, const char *url, struct mlr_error *err)
{
	long pause = d->pause_ms ? d->pause_ms : PAUSE_MS;
	uint64_t reached = 0;
	struct outcome o;
	int r;

	curl_global_init(CURL_GLOBAL_DEFAULT);
	for (int tries = 1;; tries++) {
		r = request(d, url, &o, err);
		if (o.have >= reached + PROGRESS) { /* further than any try before */
			reached = o.have;
			tries = 1;
		}
		if (r == 0 || !o.again || tries >= DOWNLOAD_TRIES)
			return r;
		poll(NULL, 0, o.came ? QUICK_MS : (int)pause);
		if (!o.came)
			pause *= 2;
	}
}
