#include "registry/download.h"

#include "registry/http.h"

#include <curl/curl.h>

#define TRIES      4
#define CONNECT_MS 20000
#define STALL_MS   30000

static int judge(const struct http_exchange *x, struct mlr_error *err)
{
	if (x->status == 200)
		return 0;
	if (x->status == 404 || x->status == 410)
		return mlr_fail(err, ENOENT, "the server has no such file (%d)", x->status);
	if (x->status == 401 || x->status == 403)
		return mlr_fail(err, EACCES, "the server refuses the file (%d)", x->status);
	return mlr_fail(err, EPROTO, "the server answers %d", x->status);
}

static int is_passing(const struct http_exchange *x, int r)
{
	return r < 0 ? x->transient : x->status == 429 || x->status >= 500;
}

int registry_download(const char *url, const struct registry_options *opt,
	int (*begin)(void *ctx, struct mlr_error *err), registry_sink_fn sink, void *ctx,
	time_t *modified, struct mlr_error *err)
{
	const struct http_options ho = { .tls_verify = opt->tls_verify,
		.connect_ms = CONNECT_MS,
		.stall_ms = STALL_MS,
		.cancelled = opt->cancelled,
		.cancelled_ctx = opt->cancelled_ctx };
	struct http *h = http_new(&ho);
	int r = 0, again = 1;

	for (int i = 0; i < TRIES && again; i++) {
		struct http_exchange x = { .url = url, .base = url, .sink = sink, .sink_ctx = ctx };

		r = i > 0 ? http_sleep(h, 500 << i, err) : 0;
		if (r == 0)
			r = begin(ctx, err);
		if (r == 0)
			r = http_perform(h, &x, err);
		again = is_passing(&x, r);
		if (r == 0)
			r = judge(&x, err);
		*modified = x.modified ? curl_getdate(x.modified, NULL) : -1;
		http_exchange_done(&x);
	}
	http_free(h);
	return r < 0 ? mlr_wrap(err, "fetch '%s'", url) : 0;
}
