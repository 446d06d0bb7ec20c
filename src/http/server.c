/* The way of a request: its head, its body, its answer; and the daemons of libmicrohttpd. */
#include "http/inside.h"

#include <openssl/crypto.h>

/* Bytes of a connection, for its header and what is read at once. libmicrohttpd clears it after
 * every request, so that an idle connection has all of it in memory. */
#define CONNECTION_MEMORY 16384
#define BODY_START        4096
#define DROP_TIMES        16 /* a longer body, in limits, is not even read and dropped */

/* --- requests --------------------------------------------------------------------------------- */

const char *http_header(const struct http_request *q, const char *name)
{
	return MHD_lookup_connection_value(
		((const struct http_ask *)q)->mhd, MHD_HEADER_KIND, name);
}

const char *http_argument(const struct http_request *q, const char *name)
{
	struct MHD_Connection *mhd = ((const struct http_ask *)q)->mhd;
	const char *value = NULL;
	size_t len;

	if (MHD_lookup_connection_value_n(
		    mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &len) != MHD_YES)
		return NULL;
	return value ? value : "";
}

void http_suspend(struct http_request *q)
{
	struct http_ask *x = (struct http_ask *)q;

	http_conns_enter(x->door->server->conns, x->conn, HTTP_COMPUTES);
	MHD_suspend_connection(x->mhd);
}

void http_resume(struct http_request *q)
{
	MHD_resume_connection(((struct http_ask *)q)->mhd);
}

/* Answer when the body is there, and again when a suspended request is resumed. */
static enum MHD_Result answer(struct http_ask *x)
{
	struct http_reply reply = HTTP_REPLY_INIT;
	int r;

	if (x->q.error.code)
		return http_reply_fail(x);
	r = x->door->server->wish.answer(&x->q, &reply);
	if (r == HTTP_LATER)
		return MHD_YES;
	if (r == 0)
		return http_reply_send(x, &reply);
	http_reply_done(&reply);
	return http_reply_fail(x);
}

/* --- reading ---------------------------------------------------------------------------------- */

void http_body_drop(struct http_request *q)
{
	struct http_ask *x = (struct http_ask *)q;

	free(x->body);
	q->body = x->body = NULL;
	http_memory_give(x->door->server->use, x->room);
	x->room = q->len = 0;
}

static int fail_length(struct http_ask *x)
{
	return mlr_fail(&x->q.error, EFBIG, "the body has more than %zu bytes", x->q.body_max);
}

/* Grow as the body comes: a length that is only announced costs nothing. */
static int reserve(struct http_ask *x, size_t size)
{
	struct http_use *use = x->door->server->use;
	size_t room = x->room ? x->room : BODY_START;
	char *body;

	if (size > x->q.body_max)
		return fail_length(x);
	while (room < size)
		room *= 2;
	if (room == x->room)
		return 0;
	if (http_memory_take(use, room - x->room) < 0)
		return mlr_fail(&x->q.error, EBUSY, "too many requests: no memory for the body");
	body = realloc(x->body, room);
	if (!body) {
		http_memory_give(use, room - x->room);
		return mlr_fail(&x->q.error, ENOMEM, "no memory for the body");
	}
	x->q.body = x->body = body;
	x->room = room;
	return 0;
}

/* After a failure the rest of the body is read and dropped, so that the client gets the answer. */
static void take_body(struct http_ask *x, const char *bytes, size_t size)
{
	if (x->q.error.code)
		return;
	if (reserve(x, x->q.len + size) < 0) {
		http_body_drop(&x->q);
		return;
	}
	memcpy(x->body + x->q.len, bytes, size);
	x->q.len += size;
}

/* Find the token that a request has; all are compared, each in constant time. */
static int find_token(const char *const *tokens, const char *got)
{
	int found = 0;

	for (int i = 0; tokens[i]; i++) {
		size_t len = strlen(tokens[i]);

		if (strlen(got) == len && CRYPTO_memcmp(got, tokens[i], len) == 0)
			found = i + 1;
	}
	return found;
}

/* A refusal takes the place of another error in err. */
static void check_token(struct http_ask *x, struct mlr_error *err)
{
	static const char scheme[] = "Bearer ";
	const char *const *tokens = x->door->server->wish.tokens;
	const char *got = tokens ? http_header(&x->q, MHD_HTTP_HEADER_AUTHORIZATION) : NULL;

	if (!tokens)
		return;
	if (!got || strncasecmp(got, scheme, sizeof(scheme) - 1) != 0) {
		mlr_fail(err, EACCES, "give the token: Authorization: Bearer TOKEN");
		return;
	}
	x->q.token = find_token(tokens, got + sizeof(scheme) - 1);
	if (!x->q.token)
		mlr_fail(err, EACCES, "the token is wrong");
}

/* Begin a request, whose first line is there. */
static void *take_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_door *door = cls;
	struct http_server *s = door->server;
	struct http_ask *x = xcalloc(1, sizeof(*x) + s->wish.state);

	x->door = door;
	x->mhd = mhd;
	x->fd = -1;
	x->conn = info->socket_context;
	x->conn->requests++;
	x->q.ctx = s->wish.ctx;
	x->q.state = x->state;
	x->q.body_max = s->wish.body;
	x->q.reach = door->socket.reach;
	x->q.start = mlr_now();
	x->q.is_late = atomic_load(&s->use->ending);
	http_conns_enter(s->conns, x->conn, HTTP_SENDS);
	if (strstr(uri, "%00")) /* raw, as it stands in the request line */
		mlr_fail(&x->q.error, EPROTO, "the path has a NUL");
	return x;
}

/* Ask the program about a request that is let in, and for its token: without one a client learns
 * nothing of paths. */
static void check_head(struct http_ask *x)
{
	if (http_strict_site(x, &x->q.error) < 0)
		return;
	x->door->server->wish.head(&x->q);
	check_token(x, x->q.is_open ? NULL : &x->q.error);
}

/* Look at the header, which is there. */
static enum MHD_Result begin(
	struct http_ask *x, const char *path, const char *method, const char *version)
{
	const char *text = http_header(&x->q, MHD_HTTP_HEADER_CONTENT_LENGTH);
	/* libmicrohttpd has refused what is no number. */
	int64_t length = text ? strtoll(text, NULL, 10) : 0;

	x->begun = 1;
	x->q.method = method;
	x->q.path = http_strict_path(path);
	x->q.type = http_header(&x->q, MHD_HTTP_HEADER_CONTENT_TYPE);
	if (!x->q.type)
		x->q.type = "";
	if (x->q.error.code || http_strict_headers(x->mhd, version, &x->q.error) < 0) {
		x->must_close = 1;
		return http_reply_fail(x);
	}
	check_head(x);
	if (!x->q.error.code && length > (int64_t)x->q.body_max)
		fail_length(x);
	/* Answer at once only a client that waits for 100-continue or would send too much; others
	 * would see a reset. */
	if (x->q.error.code == EFBIG &&
		(length / DROP_TIMES > (int64_t)x->q.body_max ||
			http_header(&x->q, MHD_HTTP_HEADER_EXPECT)))
		return http_reply_fail(x);
	return MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *mhd, const char *path,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **ctx)
{
	struct http_ask *x = *ctx;

	if (!x->begun)
		return begin(x, path, method, version);
	if (*upload_size) {
		take_body(x, upload, *upload_size);
		*upload_size = 0;
		return MHD_YES;
	}
	return answer(x);
}

static void completed(
	void *cls, struct MHD_Connection *mhd, void **ctx, enum MHD_RequestTerminationCode why)
{
	struct http_ask *x = *ctx;
	struct http_server *s;

	if (!x)
		return;
	s = x->door->server;
	s->wish.done(&x->q);
	http_body_drop(&x->q);
	fd_close(&x->fd);
	http_conns_enter(s->conns, x->conn, HTTP_WAITS);
	free(x);
	*ctx = NULL;
}

static void connection_changed(void *cls, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode what)
{
	struct http_server *s = ((struct http_door *)cls)->server;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*socket_context = http_conns_add(s->conns, mhd);
		atomic_fetch_add(&s->use->connections, 1);
	} else if (*socket_context) {
		http_conns_remove(s->conns, *socket_context);
		atomic_fetch_sub(&s->use->connections, 1);
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

static struct MHD_Daemon *start_daemon(struct http_door *d, int connections)
{
	const struct http_wish *wish = &d->server->wish;

	return MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
		NULL, NULL, handle, d, MHD_OPTION_EXTERNAL_LOGGER, debug, NULL,
		MHD_OPTION_LISTEN_SOCKET, d->socket.fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, completed, d,
		MHD_OPTION_NOTIFY_CONNECTION, connection_changed, d, MHD_OPTION_URI_LOG_CALLBACK,
		take_target, d, wish->threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
		(unsigned)wish->threads, MHD_OPTION_END);
}

static int start(struct http_server *s, struct mlr_error *err)
{
	for (const char *const *h = s->wish.hosts; h && *h; h++)
		if (!**h || !http_strict_is_host(*h))
			return mlr_fail(err, EINVAL, "host '%s': give NAME or NAME:PORT", *h);
	TRY(http_conns_open(s->wish.idle_ms, s->wish.request_ms, &s->conns, err));
	for (int i = 0; i < s->n; i++) {
		/* Each has its share, at least one. */
		int connections = (s->wish.connections + s->n - 1) / s->n;

		s->doors[i].daemon = start_daemon(&s->doors[i], connections);
		if (!s->doors[i].daemon)
			return mlr_fail(err, EIO, "libmicrohttpd does not start");
	}
	return 0;
}

int http_open(const struct http_wish *wish, struct http_use *use, const struct http_socket *sockets,
	int n, struct http_server **ret, struct mlr_error *err)
{
	struct http_server *s = xcalloc(1, sizeof(*s));
	int r;

	assert(n <= HTTP_SOCKETS_MAX);
	s->wish = *wish;
	s->use = use;
	use->memory_max = (int64_t)wish->memory;
	for (int i = 0; i < n; i++)
		if (sockets[i].fd >= 0)
			s->doors[s->n++] = (struct http_door){ s, NULL, sockets[i] };
	r = start(s, err);
	if (r < 0)
		http_close(&s);
	else
		*ret = s;
	return r;
}

int http_drain(struct http_server *s, int64_t timeout_ms)
{
	int64_t end_ms = mlr_now_ms() + timeout_ms;
	int busy;

	atomic_store(&s->use->ending, 1);
	for (int i = 0; i < s->n; i++) {
		MHD_quiesce_daemon(s->doors[i].daemon);
		fd_close(&s->doors[i].socket.fd);
	}
	while ((busy = http_conns_drain(s->conns)) > 0 && mlr_now_ms() < end_ms)
		mlr_sleep_ms(5);
	return busy;
}

void http_close(struct http_server **server)
{
	struct http_server *s = *server;

	if (!s)
		return;
	atomic_store(&s->use->ending, 1);
	if (s->conns)
		http_conns_drain(s->conns); /* wakes the streams, which end */
	for (int i = 0; i < s->n; i++)
		if (s->doors[i].daemon)
			MHD_stop_daemon(s->doors[i].daemon);
		else
			fd_close(&s->doors[i].socket.fd);
	http_conns_close(&s->conns);
	free(s);
	*server = NULL;
}
