#include "registry/request.h"

#define NOTICE_MIN_MS 3000 /* shorter waits are not announced */
#define MIRROR_TRIES  3    /* few, as the next host can be tried */
#define MIRROR_WAIT_S 5

static void tell_wait(struct registry *r, int64_t ms, const struct mlr_error *err)
{
	auto_free char *words = NULL;

	words = xasprintf(
		"%.*s; trying again in %lld s", MLR_SENTENCE(err), (long long)(ms + 500) / 1000);
	if (r->opt.notice && ms >= NOTICE_MIN_MS)
		r->opt.notice(r->opt.notice_ctx, words);
	else
		mlr_debug("%s", words);
}

/* Had all bytes arrived before the connection broke? */
static int is_whole(const struct request *q, const struct http_exchange *x)
{
	return q->received && *q->received == q->size && x->transient &&
		(x->status == 200 || x->status == 206);
}

/* The delay before the next try at this host, or -1. */
static int64_t next_try(const struct endpoint *e, const struct request *q,
	const struct http_exchange *x, int reached, struct retry *retry)
{
	/* A registry that never responded is more likely misspelt than restarting. */
	if (!x->transient || (x->unreached && (!reached || e->is_mirror)))
		return -1;
	if (e->is_mirror && x->retry_after > MIRROR_WAIT_S)
		return -1;
	return retry_delay(retry, q->received ? *q->received : 0, x->retry_after,
		(unsigned)(mlr_now_ms() ^ getpid()));
}

static int is_success(const struct request *q, const struct http_exchange *x)
{
	if (q->is_upload)
		return x->status >= 200 && x->status < 300;
	return x->status == 200 || x->status == 206 || (x->status == 416 && q->received);
}

int request_once(
	struct endpoint *e, const struct request *q, struct http_exchange *x, struct mlr_error *err)
{
	TRY(endpoint_try(e, q, x, err));
	if (!is_success(q, x))
		return endpoint_fail(e, q, x, err);
	return q->end ? q->end(q->ctx, x, err) : 0;
}

int request_wait(struct registry *r, struct endpoint *e, const struct request *q,
	const struct http_exchange *x, int reached, struct retry *retry, struct mlr_error *err)
{
	int64_t ms = next_try(e, q, x, reached, retry);

	if (ms < 0)
		return -err->code;
	tell_wait(r, ms, err);
	return http_sleep(e->http, ms, err);
}

/* Try one host until it responds or the tries are used up. */
static int run_at(struct registry *r, struct endpoint *e, const struct request *q,
	struct http_exchange *x, struct mlr_error *err)
{
	struct retry retry = RETRY_INIT;

	retry.limit = e->is_mirror ? MIRROR_TRIES : RETRY_TRIES;
	for (;;) {
		int reached = __atomic_load_n(&e->settled, __ATOMIC_ACQUIRE);
		int ret = request_once(e, q, x, err);

		if (ret == 0 || is_whole(q, x))
			return 0;
		if (ret == -ECANCELED || (q->fatal && *q->fatal))
			return ret;
		TRY(request_wait(r, e, q, x, reached, &retry, err));
	}
}

/* A mirror without the blob may have other blobs; one that fails otherwise is not tried again. */
static void pass_over(struct endpoint *e, int ret, const struct mlr_error *err, char **why)
{
	set_ptr(why, xasprintf("the mirror '%s' failed (%.*s), and", e->name, MLR_SENTENCE(err)));
	mlr_debug("the mirror '%s' is passed over: %.*s", e->name, MLR_SENTENCE(err));
	if (ret != -ENOENT)
		__atomic_store_n(&e->down, 1, __ATOMIC_RELEASE);
}

int registry_distrust(struct registry *r)
{
	int n = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct endpoint *e = r->endpoints[i];

		if (!e->is_mirror || !__atomic_load_n(&e->served, __ATOMIC_ACQUIRE))
			continue;
		n++;
		if (!__atomic_exchange_n(&e->down, 1, __ATOMIC_ACQ_REL))
			mlr_debug("the mirror '%s' served wrong bytes and is passed over", e->name);
	}
	return n;
}

int request_run(
	struct registry *r, const struct request *q, struct http_exchange *x, struct mlr_error *err)
{
	auto_free char *why = NULL; /* the last mirror's failure */

	for (size_t i = 0;; i++) {
		struct endpoint *e = r->endpoints[i];
		int ret;

		if (e->is_mirror && (q->no_mirrors || __atomic_load_n(&e->down, __ATOMIC_ACQUIRE)))
			continue;
		ret = run_at(r, e, q, x, err);
		if (ret == 0 && !__atomic_exchange_n(&e->served, 1, __ATOMIC_ACQ_REL) &&
			e->is_mirror)
			mlr_debug("the mirror '%s' serves '%s'", e->name, e->repository);
		if (ret < 0 && !e->is_mirror && why && ret != -ECANCELED)
			mlr_wrap(err, "%s", why);
		if (ret == 0 || !e->is_mirror || ret == -ECANCELED || (q->fatal && *q->fatal))
			return ret;
		pass_over(e, ret, err, &why);
	}
}
