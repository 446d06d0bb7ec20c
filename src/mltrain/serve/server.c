#include "serve/server.h"

#include "base/machine.h"

#define READ_AT_ONCE 65536 /* bytes of a body; more, and large pictures, are the readers' work */
#define READERS_MAX  4     /* each may hold a request's decoded pictures */

struct server {
	int rows;
	struct serve_context *context;
	struct serve_queue *queue;
	struct serve_cache *cache;
	struct http_readers *readers;
	struct http_server *http;
};

/* A request and its answer: the state of q. */
struct request {
	struct server *server;
	struct http_request *q;
	struct serve_match match;
	struct serve_ask ask;
	struct serve_job job;
	struct serve_lookup lookup;
	struct http_reading reading;
	float *logits;
	size_t logits_size;
	int answered; /* job or lookup is done */
	int cached;   /* 0: no cache; else 'H' or 'M' */
};

/* --- answers ---------------------------------------------------------------------------------- */

static void add_cached(const struct request *x, struct http_reply *ret)
{
	if (x->cached)
		http_reply_add(ret, "X-MLAPI-Cache", x->cached == 'H' ? "Hit" : "Miss");
}

static int fail(struct http_request *q, struct http_reply *ret)
{
	const struct request *x = q->state;
	const struct serve_dialect *dialect = x->match.route ? x->match.route->dialect : &serve_v2;

	if (q->error.code == EINVAL)
		ret->status = dialect->invalid;
	if (q->error.code == EPERM)
		http_reply_add(ret, "Allow", x->match.methods & SERVE_GET ? "GET, HEAD" : "POST");
	add_cached(x, ret);
	return serve_reply_json(ret, dialect->fail(q->error.text), NULL);
}

/* Write the answer of logits that are there. */
static int write_answer(struct request *x, struct http_reply *ret)
{
	int n = x->ask.rows * x->match.model->classes;

	if (!predictor_is_finite(x->logits, n))
		return mlr_fail(&x->q->error, EDOM, "the network's answer is not a number");
	TRY(x->match.route->dialect->write(&x->ask, x->logits, ret, &x->q->error));
	add_cached(x, ret);
	return 0;
}

/* --- predictions ------------------------------------------------------------------------------ */

static void resume(struct request *x)
{
	x->answered = 1;
	http_resume(x->q);
}

static void computed(struct serve_job *job)
{
	struct request *x = job->ctx;
	struct serve_cache *cache = x->server->cache;

	if (job->failed)
		mlr_result(&x->q->error, -job->failed, "compute");
	else if (cache)
		cache->kind->put(cache, x->lookup.key, x->logits, x->logits_size);
	resume(x);
}

/* The connection is suspended. */
static void compute(struct request *x)
{
	x->job = (struct serve_job){ .model = x->match.model,
		.images = x->ask.images,
		.logits = x->logits,
		.rows = x->ask.rows,
		.done = computed,
		.ctx = x };
	if (serve_queue_put(x->server->queue, &x->job) == 0)
		return;
	mlr_fail(&x->q->error, EBUSY, "too many requests: the queue is full");
	resume(x);
}

static void looked_up(struct serve_lookup *lookup)
{
	struct request *x = lookup->ctx;

	x->cached = lookup->hit ? 'H' : 'M';
	if (lookup->hit)
		resume(x);
	else
		compute(x);
}

static int make_logits(struct request *x)
{
	size_t size = (size_t)x->ask.rows * (size_t)x->match.model->classes * sizeof(float);

	if (http_memory_take(&x->server->context->counts->http, size) < 0)
		return mlr_fail(&x->q->error, EBUSY, "too many requests: no memory for the answer");
	x->logits_size = size;
	x->logits = malloc(size);
	return x->logits ? 0 : mlr_fail(&x->q->error, ENOMEM, "no memory for the answer");
}

/* Read the body into images and make room for their logits. Returns -EAGAIN if that takes long and
 * should not. */
static int read_body(struct request *x, int takes_long)
{
	int r;

	x->ask.body = x->q->body ? x->q->body : "";
	x->ask.len = x->q->len;
	x->ask.model = x->match.model;
	x->ask.memory = &x->server->context->counts->http;
	x->ask.rows_max = x->server->rows;
	x->ask.takes_long = takes_long;
	r = x->match.route->dialect->parse(&x->ask, &x->q->error);
	serve_ask_parsed(&x->ask);
	if (r < 0)
		return r;
	http_body_drop(x->q);
	TRY(make_logits(x));
	if (!x->server->cache)
		return 0;
	serve_cache_key(&x->ask, x->lookup.key);
	x->lookup.logits = x->logits;
	x->lookup.size = x->logits_size;
	x->lookup.done = looked_up;
	x->lookup.ctx = x;
	return 0;
}

/* Look for the answer of a suspended request, which is read, or compute it. */
static void answer_read(struct request *x)
{
	struct serve_cache *cache = x->server->cache;

	if (!cache) {
		compute(x);
		return;
	}
	serve_cache_get(cache, &x->lookup);
	if (!cache->kind->waits)
		looked_up(&x->lookup);
}

static void read_in_thread(struct http_reading *reading)
{
	struct request *x = reading->ctx;

	if (read_body(x, 1) < 0)
		resume(x);
	else
		answer_read(x);
}

static int leave_to_readers(struct request *x)
{
	x->q->error = (struct mlr_error)MLR_ERROR_INIT;
	serve_ask_done(&x->ask);
	x->reading = (struct http_reading){ .run = read_in_thread, .ctx = x };
	http_suspend(x->q);
	http_readers_put(x->server->readers, &x->reading);
	return HTTP_LATER;
}

static int predict(struct request *x, struct http_reply *ret)
{
	struct serve_cache *cache = x->server->cache;
	int r = x->q->len > READ_AT_ONCE ? -EAGAIN : read_body(x, 0);

	if (r == -EAGAIN)
		return leave_to_readers(x);
	if (r < 0)
		return r;
	if (cache && !cache->kind->waits) {
		serve_cache_get(cache, &x->lookup);
		x->cached = x->lookup.hit ? 'H' : 'M';
		if (x->lookup.hit)
			return write_answer(x, ret);
		http_suspend(x->q);
		compute(x);
		return HTTP_LATER;
	}
	http_suspend(x->q);
	answer_read(x);
	return HTTP_LATER;
}

static int answer(struct http_request *q, struct http_reply *ret)
{
	struct request *x = q->state;

	if (x->answered)
		return write_answer(x, ret);
	if (!x->match.route->get)
		return predict(x, ret);
	return x->match.route->get(x->server->context, x->match.model, ret, &q->error);
}

/* --- the head and the end ----------------------------------------------------------------------
 */

/* Digits and nothing else. */
static int read_length(const char *text, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	return *text < '0' || *text > '9' || *end || errno ? -1 : 0;
}

static unsigned method_of(const char *method)
{
	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		return SERVE_GET;
	return strcmp(method, "POST") == 0 ? SERVE_POST : 0;
}

static void head(struct http_request *q)
{
	struct request *x = q->state;
	const char *json = http_header(q, "Inference-Header-Content-Length");
	int r;

	x->server = q->ctx;
	x->q = q;
	x->ask.type = q->type;
	x->ask.json_len = -1;
	r = serve_routes_find(
		x->server->context, q->path, method_of(q->method), &x->match, &q->error);
	q->is_open = x->match.route && x->match.route->is_open;
	if (r == 0 && !x->match.route->get && q->is_late)
		mlr_fail(&q->error, ESHUTDOWN, "the server is ending");
	else if (r == 0 && json && read_length(json, &x->ask.json_len) < 0)
		mlr_fail(&q->error, EPROTO, "Inference-Header-Content-Length is not a number");
}

static void done(struct http_request *q)
{
	struct server *s = q->ctx;
	struct request *x = q->state;

	if (q->status)
		serve_counts_request(
			s->context->counts, x->match.number, q->status, mlr_now() - q->start);
	serve_ask_done(&x->ask);
	free(x->logits);
	http_memory_give(&s->context->counts->http, x->logits_size);
	serve_model_drop(&x->match.model);
}

/* --- the server ------------------------------------------------------------------------------- */

int server_open(const struct http_wish *wish, int rows, const struct http_socket *sockets,
	struct serve_context *context, struct serve_queue *queue, struct serve_cache *cache,
	struct server **ret, struct mlr_error *err)
{
	struct server *s = xcalloc(1, sizeof(*s));
	struct http_wish http = *wish;
	int readers = (int)processors_count(), r;

	s->rows = rows;
	s->context = context;
	s->queue = queue;
	s->cache = cache;
	http.state = sizeof(struct request);
	http.head = head;
	http.answer = answer;
	http.fail = fail;
	http.done = done;
	http.ctx = s;
	r = http_readers_open(readers < READERS_MAX ? readers : READERS_MAX, &s->readers, err);
	if (r == 0)
		r = http_open(
			&http, &context->counts->http, sockets, SERVER_SOCKETS, &s->http, err);
	if (r < 0)
		server_close(&s);
	else
		*ret = s;
	return r;
}

int server_drain(struct server *s, int64_t timeout_ms)
{
	serve_queue_hurry(s->queue);
	return http_drain(s->http, timeout_ms);
}

void server_close(struct server **server)
{
	struct server *s = *server;

	if (!s)
		return;
	http_close(&s->http);
	http_readers_close(&s->readers);
	free(s);
	*server = NULL;
}
