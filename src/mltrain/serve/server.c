#include "serve/server.h"

#include "base/machine.h"

#include <microhttpd.h>
#include <openssl/crypto.h>

/* Bytes of a connection, for its header and what is read at once. libmicrohttpd clears it after
 * every request, so that an idle connection has all of it in memory. */
#define CONNECTION_MEMORY 16384
#define BODY_START        4096
#define DROP_TIMES        16    /* a longer body, in limits, is not even read and dropped */
#define READ_AT_ONCE      65536 /* bytes of a body; more, and large pictures, are the readers' work */
#define READERS_MAX       4     /* each may hold a request's decoded pictures */

/* Requests on a connection to the shared socket, and up to so many more, until it is closed: its
 * client then meets another server, such as one that was restarted. */
#define SHARED_REQUESTS 1000
#define SHARED_SPREAD   256

struct server {
	struct server_wish wish;
	struct serve_context *context;
	struct serve_queue *queue;
	struct serve_cache *cache;
	struct serve_conns *conns;
	struct serve_readers *readers;
	struct serve_memory memory;
	struct MHD_Daemon *daemon[SERVER_SOCKETS];
	int fd[SERVER_SOCKETS];
};

/* A request and its answer. */
struct request {
	struct server *server;
	struct MHD_Connection *mhd;
	struct serve_conn *conn;
	struct serve_match match;
	struct serve_ask ask;
	struct serve_job job;
	struct serve_lookup lookup;
	struct serve_reading reading;
	double start;
	char *body;
	size_t len, room;
	float *logits;
	size_t logits_size;
	int begun;              /* the header is there */
	int late;               /* it began after the server began to end */
	int must_close;         /* nothing behind this request can be trusted */
	int answered;           /* job or lookup is done */
	int cached;             /* 0: no cache; else 'H' or 'M' */
	int status;             /* of the answer */
	struct mlr_error error; /* code 0: none */
};

/* --- answers ---------------------------------------------------------------------------------- */

/* Translate a failure into a status of HTTP. */
static int status_of(int code, const struct serve_dialect *dialect)
{
	static const struct {
		int code, status;
	} table[] = {
		{ EPROTO, MHD_HTTP_BAD_REQUEST },
		{ EACCES, MHD_HTTP_UNAUTHORIZED },
		{ ENOENT, MHD_HTTP_NOT_FOUND },
		{ EPERM, MHD_HTTP_METHOD_NOT_ALLOWED },
		{ EFBIG, MHD_HTTP_CONTENT_TOO_LARGE },
		{ EMEDIUMTYPE, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE },
		{ EBUSY, MHD_HTTP_TOO_MANY_REQUESTS },
		{ ENOTSUP, MHD_HTTP_NOT_IMPLEMENTED },
		{ ENOMEM, MHD_HTTP_SERVICE_UNAVAILABLE },
		{ ESHUTDOWN, MHD_HTTP_SERVICE_UNAVAILABLE },
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].code == code)
			return table[i].status;
	return code == EINVAL ? dialect->invalid : MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* Is it time that the connection's client looks for a server again? */
static int is_used_up(const struct request *x)
{
	return x->server->fd[1] >= 0 &&
		x->conn->requests >= SHARED_REQUESTS + x->conn->fd % SHARED_SPREAD;
}

static void add_headers(
	struct request *x, struct MHD_Response *response, const struct serve_reply *reply)
{
	char len[24];

	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (reply->json_len >= 0) {
		snprintf(len, sizeof(len), "%" PRId64, reply->json_len);
		MHD_add_response_header(response, "Inference-Header-Content-Length", len);
	}
	if (x->cached)
		MHD_add_response_header(
			response, "X-MLAPI-Cache", x->cached == 'H' ? "Hit" : "Miss");
	if (reply->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
			x->match.methods & SERVE_GET ? "GET, HEAD" : "POST");
	if (reply->status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (reply->status == MHD_HTTP_TOO_MANY_REQUESTS)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	if (x->must_close || is_used_up(x) || atomic_load(&x->server->context->draining))
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

/* Queue the answer; takes reply's body. */
static enum MHD_Result send_reply(struct request *x, struct serve_reply *reply)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(reply->len, reply->body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result r;

	if (!response) {
		free(reply->body);
		return MHD_NO;
	}
	add_headers(x, response, reply);
	x->status = reply->status;
	serve_conns_enter(x->server->conns, x->conn, SERVE_TAKES);
	r = MHD_queue_response(x->mhd, (unsigned)reply->status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result send_failure(struct request *x)
{
	const struct serve_route *route = x->match.route;
	const struct serve_dialect *dialect = route ? route->dialect : &serve_v2;
	struct serve_reply reply = SERVE_REPLY_INIT;

	reply.status = status_of(x->error.code, dialect);
	if (serve_reply_json(&reply, dialect->fail(x->error.text), NULL) < 0)
		return MHD_NO;
	return send_reply(x, &reply);
}

/* Write the answer of logits that are there. */
static enum MHD_Result send_answer(struct request *x)
{
	struct serve_reply reply = SERVE_REPLY_INIT;
	int n = x->ask.rows * x->match.model->classes;

	if (!x->error.code && !predictor_is_finite(x->logits, n))
		mlr_fail(&x->error, EDOM, "the network's answer is not a number");
	if (!x->error.code &&
		x->match.route->dialect->write(&x->ask, x->logits, &reply, &x->error) == 0)
		return send_reply(x, &reply);
	free(reply.body);
	return send_failure(x);
}

/* --- predictions ------------------------------------------------------------------------------ */

static void resume(struct request *x)
{
	x->answered = 1;
	MHD_resume_connection(x->mhd);
}

static void computed(struct serve_job *job)
{
	struct request *x = job->ctx;
	struct serve_cache *cache = x->server->cache;

	if (job->failed)
		mlr_result(&x->error, -job->failed, "compute");
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
	mlr_fail(&x->error, EBUSY, "too many requests: the queue is full");
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

static void suspend(struct request *x)
{
	serve_conns_enter(x->server->conns, x->conn, SERVE_COMPUTES);
	MHD_suspend_connection(x->mhd);
}

static void drop_body(struct request *x)
{
	free(x->body);
	x->body = NULL;
	serve_memory_give(&x->server->memory, x->room);
	x->room = x->len = 0;
}

static int make_logits(struct request *x)
{
	size_t size = (size_t)x->ask.rows * (size_t)x->match.model->classes * sizeof(float);

	if (serve_memory_take(&x->server->memory, size) < 0)
		return mlr_fail(&x->error, EBUSY, "too many requests: no memory for the answer");
	x->logits_size = size;
	x->logits = malloc(size);
	return x->logits ? 0 : mlr_fail(&x->error, ENOMEM, "no memory for the answer");
}

/* Read the body into images and make room for their logits. Returns -EAGAIN if that takes long and
 * should not. */
static int read_body(struct request *x, int takes_long)
{
	int r;

	x->ask.body = x->body ? x->body : "";
	x->ask.len = x->len;
	x->ask.model = x->match.model;
	x->ask.memory = &x->server->memory;
	x->ask.rows_max = x->server->wish.rows;
	x->ask.takes_long = takes_long;
	r = x->match.route->dialect->parse(&x->ask, &x->error);
	serve_ask_parsed(&x->ask);
	if (r < 0)
		return r;
	drop_body(x);
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
static void answer(struct request *x)
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

static void read_in_thread(struct serve_reading *reading)
{
	struct request *x = reading->ctx;

	if (read_body(x, 1) < 0)
		resume(x);
	else
		answer(x);
}

static enum MHD_Result leave_to_readers(struct request *x)
{
	x->error = (struct mlr_error)MLR_ERROR_INIT;
	serve_ask_done(&x->ask);
	x->reading = (struct serve_reading){ .run = read_in_thread, .ctx = x };
	suspend(x);
	serve_readers_put(x->server->readers, &x->reading);
	return MHD_YES;
}

static enum MHD_Result predict(struct request *x)
{
	struct serve_cache *cache = x->server->cache;
	int r = x->len > READ_AT_ONCE ? -EAGAIN : read_body(x, 0);

	if (r == -EAGAIN)
		return leave_to_readers(x);
	if (r < 0)
		return send_failure(x);
	if (cache && !cache->kind->waits) {
		serve_cache_get(cache, &x->lookup);
		x->cached = x->lookup.hit ? 'H' : 'M';
		if (x->lookup.hit)
			return send_answer(x);
		suspend(x);
		compute(x);
		return MHD_YES;
	}
	suspend(x);
	answer(x);
	return MHD_YES;
}

static enum MHD_Result body_is_there(struct request *x)
{
	struct serve_reply reply = SERVE_REPLY_INIT;

	if (x->error.code)
		return send_failure(x);
	if (!x->match.route->get)
		return predict(x);
	if (x->match.route->get(x->server->context, x->match.model, &reply, &x->error) == 0)
		return send_reply(x, &reply);
	free(reply.body);
	return send_failure(x);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Grow as the body comes: a length that is only announced costs nothing. */
static int reserve(struct request *x, size_t size)
{
	size_t most = x->server->wish.body, room = x->room ? x->room : BODY_START;
	char *body;

	if (size > most)
		return mlr_fail(&x->error, EFBIG, "the body has more than %zu bytes", most);
	while (room < size)
		room *= 2;
	if (room == x->room)
		return 0;
	if (serve_memory_take(&x->server->memory, room - x->room) < 0)
		return mlr_fail(&x->error, EBUSY, "too many requests: no memory for the body");
	body = realloc(x->body, room);
	if (!body) {
		serve_memory_give(&x->server->memory, room - x->room);
		return mlr_fail(&x->error, ENOMEM, "no memory for the body");
	}
	x->body = body;
	x->room = room;
	return 0;
}

/* After a failure the rest of the body is read and dropped, so that the client gets the answer. */
static void take_body(struct request *x, const char *bytes, size_t size)
{
	if (x->error.code)
		return;
	if (reserve(x, x->len + size) < 0) {
		drop_body(x);
		return;
	}
	memcpy(x->body + x->len, bytes, size);
	x->len += size;
}

static const char *header(const struct request *x, const char *name)
{
	return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

static int check_token(const struct request *x, struct mlr_error *err)
{
	static const char scheme[] = "Bearer ";
	const char *token = x->server->wish.token, *got = header(x, MHD_HTTP_HEADER_AUTHORIZATION);

	if (!token || (x->match.route && x->match.route->is_open))
		return 0;
	if (!got || strncasecmp(got, scheme, sizeof(scheme) - 1) != 0)
		return mlr_fail(err, EACCES, "give the token: Authorization: Bearer TOKEN");
	got += sizeof(scheme) - 1;
	if (strlen(got) != strlen(token) || CRYPTO_memcmp(got, token, strlen(token)) != 0)
		return mlr_fail(err, EACCES, "the token is wrong");
	return 0;
}

/* Digits and nothing else; libmicrohttpd has checked Content-Length, but nobody the other. */
static int read_length(const char *text, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	return *text < '0' || *text > '9' || *end || errno ? -1 : 0;
}

static int check_headers(struct request *x, int64_t *length, struct mlr_error *err)
{
	const char *json = header(x, "Inference-Header-Content-Length");
	const char *len = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);

	TRY(check_token(x, err));
	x->ask.json_len = -1;
	if (json && read_length(json, &x->ask.json_len) < 0)
		return mlr_fail(err, EPROTO, "Inference-Header-Content-Length is not a number");
	if (len && read_length(len, length) < 0)
		return mlr_fail(err, EPROTO, "Content-Length is not a number");
	if (*length > (int64_t)x->server->wish.body)
		return mlr_fail(
			err, EFBIG, "the body has more than %zu bytes", x->server->wish.body);
	return 0;
}

static unsigned method_of(const char *method)
{
	if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
		return SERVE_GET;
	return strcmp(method, MHD_HTTP_METHOD_POST) == 0 ? SERVE_POST : 0;
}

/* Begin a request, whose first line is there. */
static void *take_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct request *x = xcalloc(1, sizeof(*x));

	x->server = cls;
	x->mhd = mhd;
	x->conn = info->socket_context;
	x->conn->requests++;
	x->start = mlr_now();
	x->late = atomic_load(&x->server->context->draining);
	serve_conns_enter(x->server->conns, x->conn, SERVE_SENDS);
	if (strstr(uri, "%00")) /* raw, as it stands in the request line */
		mlr_fail(&x->error, EPROTO, "the path has a NUL");
	return x;
}

/* Look at the header, which is there. */
static enum MHD_Result begin(
	struct request *x, const char *path, const char *method, const char *version)
{
	struct server *s = x->server;
	int64_t length = 0;

	x->begun = 1;
	if (x->error.code || serve_strict_headers(x->mhd, version, &x->error) < 0) {
		x->must_close = 1;
		serve_routes_find(s->context, "", 0, &x->match, NULL); /* none */
		return send_failure(x);
	}
	x->ask.type = header(x, MHD_HTTP_HEADER_CONTENT_TYPE);
	if (!x->ask.type)
		x->ask.type = "";
	if (serve_routes_find(s->context, serve_strict_path(path), method_of(method), &x->match,
		    &x->error) == 0 &&
		!x->match.route->get && x->late)
		mlr_fail(&x->error, ESHUTDOWN, "the server is ending");
	/* Without a token a client learns nothing of paths and models. */
	if (check_token(x, NULL) < 0)
		x->error = (struct mlr_error)MLR_ERROR_INIT;
	if (!x->error.code)
		check_headers(x, &length, &x->error);
	/* Answer at once only a client that waits for 100-continue or would send too much; others
	 * would see a reset. */
	if (x->error.code == EFBIG &&
		(length / DROP_TIMES > (int64_t)s->wish.body || header(x, MHD_HTTP_HEADER_EXPECT)))
		return send_failure(x);
	return MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *mhd, const char *path,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **ctx)
{
	struct request *x = *ctx;

	if (!x->begun)
		return begin(x, path, method, version);
	if (*upload_size) {
		take_body(x, upload, *upload_size);
		*upload_size = 0;
		return MHD_YES;
	}
	return x->answered ? send_answer(x) : body_is_there(x);
}

static void completed(
	void *cls, struct MHD_Connection *mhd, void **ctx, enum MHD_RequestTerminationCode why)
{
	struct server *s = cls;
	struct request *x = *ctx;

	if (!x)
		return;
	if (x->status)
		serve_counts_request(
			s->context->counts, x->match.number, x->status, mlr_now() - x->start);
	serve_ask_done(&x->ask);
	drop_body(x);
	free(x->logits);
	serve_memory_give(&s->memory, x->logits_size);
	serve_model_drop(&x->match.model);
	serve_conns_enter(s->conns, x->conn, SERVE_WAITS);
	free(x);
	*ctx = NULL;
}

static void connection_changed(void *cls, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode what)
{
	struct server *s = cls;
	atomic_int_fast64_t *open = &s->context->counts->connections;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*socket_context = serve_conns_add(s->conns,
			MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)
				->connect_fd);
		atomic_fetch_add(open, 1);
	} else if (*socket_context) {
		serve_conns_remove(s->conns, *socket_context);
		atomic_fetch_sub(open, 1);
	}
}

__attribute__((format(printf, 2, 0))) static void debug(void *cls, const char *fmt, va_list ap)
{
	auto_free char *text = NULL;

	if (mlr_log_level < MLR_DEBUG)
		return;
	text = xvasprintf(fmt, ap);
	mlr_debug("libmicrohttpd: %s", text);
}

/* --- the server ------------------------------------------------------------------------------- */

static struct MHD_Daemon *start_daemon(struct server *s, int fd, int connections)
{
	const struct server_wish *wish = &s->wish;

	return MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
		NULL, NULL, handle, s, MHD_OPTION_EXTERNAL_LOGGER, debug, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)connections,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_NOTIFY_COMPLETED, completed, s, MHD_OPTION_NOTIFY_CONNECTION,
		connection_changed, s, MHD_OPTION_URI_LOG_CALLBACK, take_target, s,
		wish->threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
		(unsigned)wish->threads, MHD_OPTION_END);
}

int server_open(const struct server_wish *wish, const int *fds, struct serve_context *context,
	struct serve_queue *queue, struct serve_cache *cache, struct server **ret,
	struct mlr_error *err)
{
	struct server *s = xcalloc(1, sizeof(*s));
	int sockets = 0, readers = (int)processors_count(), r;

	s->wish = *wish;
	memcpy(s->fd, fds, sizeof(s->fd));
	s->context = context;
	s->queue = queue;
	s->cache = cache;
	s->memory = (struct serve_memory){ &context->counts->memory, (int64_t)wish->memory };
	r = serve_readers_open(readers < READERS_MAX ? readers : READERS_MAX, &s->readers, err);
	if (r == 0)
		r = serve_conns_open(wish->idle_ms, wish->request_ms, &s->conns, err);
	if (r < 0) {
		server_close(&s);
		return r;
	}
	for (int i = 0; i < SERVER_SOCKETS; i++)
		sockets += fds[i] >= 0;
	for (int i = 0; i < SERVER_SOCKETS; i++) {
		/* Each has its share, at least one. */
		int connections = (wish->connections + sockets - 1) / sockets;

		if (fds[i] < 0 || (s->daemon[i] = start_daemon(s, fds[i], connections)))
			continue;
		server_close(&s);
		return mlr_fail(err, EIO, "libmicrohttpd does not start");
	}
	*ret = s;
	return 0;
}

int server_drain(struct server *s, int64_t timeout_ms)
{
	int64_t end_ms = mlr_now_ms() + timeout_ms;
	int busy;

	atomic_store(&s->context->draining, 1);
	serve_queue_hurry(s->queue);
	for (int i = 0; i < SERVER_SOCKETS; i++)
		if (s->daemon[i]) {
			MHD_quiesce_daemon(s->daemon[i]);
			fd_close(&s->fd[i]);
		}
	while ((busy = serve_conns_drain(s->conns)) > 0 && mlr_now_ms() < end_ms)
		mlr_sleep_ms(5);
	return busy;
}

void server_close(struct server **server)
{
	struct server *s = *server;

	if (!s)
		return;
	for (int i = 0; i < SERVER_SOCKETS; i++)
		if (s->daemon[i])
			MHD_stop_daemon(s->daemon[i]);
	serve_readers_close(&s->readers);
	serve_conns_close(&s->conns);
	free(s);
	*server = NULL;
}
