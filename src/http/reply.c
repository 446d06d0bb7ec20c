/* Answers: statuses, headers, and bodies from memory, from files and from programs that go on. */
#include "http/inside.h"

#include <sys/socket.h>

/* Requests on a connection to a shared socket, and up to so many more, until it is closed: its
 * client then meets another server, such as one that was restarted. */
#define SHARED_REQUESTS 1000
#define SHARED_SPREAD   256

#define FILE_BLOCK   65536
#define STREAM_BLOCK 1024 /* only for clients of HTTP/1.0; chunks have the connection's memory */

/* Translate a failure into a status of HTTP. */
static int status_of(int code)
{
	static const struct {
		int code, status;
	} table[] = {
		{ EPROTO, MHD_HTTP_BAD_REQUEST },
		{ EACCES, MHD_HTTP_UNAUTHORIZED },
		{ EXDEV, MHD_HTTP_FORBIDDEN },
		{ EROFS, MHD_HTTP_FORBIDDEN },
		{ ENOENT, MHD_HTTP_NOT_FOUND },
		{ EPERM, MHD_HTTP_METHOD_NOT_ALLOWED },
		{ EEXIST, MHD_HTTP_CONFLICT },
		{ ESTALE, MHD_HTTP_GONE },
		{ EFBIG, MHD_HTTP_CONTENT_TOO_LARGE },
		{ EMEDIUMTYPE, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE },
		{ ERANGE, MHD_HTTP_RANGE_NOT_SATISFIABLE },
		{ EADDRNOTAVAIL, MHD_HTTP_MISDIRECTED_REQUEST },
		{ EINVAL, MHD_HTTP_UNPROCESSABLE_CONTENT },
		{ EBUSY, MHD_HTTP_TOO_MANY_REQUESTS },
		{ ENOTSUP, MHD_HTTP_NOT_IMPLEMENTED },
		{ ENOMEM, MHD_HTTP_SERVICE_UNAVAILABLE },
		{ ESHUTDOWN, MHD_HTTP_SERVICE_UNAVAILABLE },
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].code == code)
			return table[i].status;
	return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

void http_reply_done(struct http_reply *reply)
{
	free(reply->body);
	fd_close(&reply->fd);
}

/* --- streams and files ------------------------------------------------------------------------ */

static int is_gone(const struct http_ask *x)
{
	char c;

	return recv(x->conn->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t size)
{
	struct http_ask *x = cls;
	struct http_server *s = x->door->server;
	ssize_t n;

	/* From here on a call of http_stream_wake() counts. */
	http_conns_enter(s->conns, x->conn, HTTP_TAKES);
	if (atomic_load(&s->use->ending) || is_gone(x))
		return MHD_CONTENT_READER_END_OF_STREAM;
	n = x->read(&x->q, to, size);
	if (n == 0)
		http_conns_sleep(s->conns, x->conn);
	return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

void http_stream_wake(struct http_request *q)
{
	struct http_ask *x = (struct http_ask *)q;

	http_conns_wake(x->door->server->conns, x->conn);
}

static ssize_t read_file(void *cls, uint64_t pos, char *to, size_t size)
{
	struct http_ask *x = cls;
	ssize_t n = pread(x->fd, to, size, x->offset + (off_t)pos);

	http_conns_enter(x->door->server->conns, x->conn, HTTP_TAKES);
	return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR; /* it has become shorter */
}

/* --- answers ---------------------------------------------------------------------------------- */

static struct MHD_Response *make_response(struct http_ask *x, struct http_reply *r)
{
	if (r->read) {
		x->read = r->read;
		return MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, x, NULL);
	}
	if (r->fd >= 0) {
		x->fd = take_fd(&r->fd);
		x->offset = r->offset;
		return MHD_create_response_from_callback(r->len, FILE_BLOCK, read_file, x, NULL);
	}
	if (r->content)
		return MHD_create_response_from_buffer(
			r->len, (void *)(uintptr_t)r->content, MHD_RESPMEM_PERSISTENT);
	return MHD_create_response_from_buffer(r->len, r->body, MHD_RESPMEM_MUST_FREE);
}

/* Is it time that the connection's client looks for a server again? */
static int is_used_up(const struct http_ask *x)
{
	return x->door->socket.shares &&
		x->conn->requests >= SHARED_REQUESTS + x->conn->fd % SHARED_SPREAD;
}

static void add_headers(
	struct http_ask *x, struct MHD_Response *response, const struct http_reply *reply)
{
	const struct http_field *fixed = x->door->server->wish.fields;

	if (reply->type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	for (; fixed && fixed->name; fixed++)
		MHD_add_response_header(response, fixed->name, fixed->value);
	for (int i = 0; i < reply->n_fields; i++)
		MHD_add_response_header(response, reply->fields[i].name, reply->fields[i].value);
	if (reply->status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (reply->status == MHD_HTTP_TOO_MANY_REQUESTS)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	if (x->must_close || is_used_up(x) || atomic_load(&x->door->server->use->ending))
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

enum MHD_Result http_reply_send(struct http_ask *x, struct http_reply *reply)
{
	struct MHD_Response *response = make_response(x, reply);
	enum MHD_Result r;

	if (!response) {
		http_reply_done(reply);
		return MHD_NO;
	}
	add_headers(x, response, reply);
	x->q.status = reply->status;
	http_conns_enter(x->door->server->conns, x->conn, HTTP_TAKES);
	r = MHD_queue_response(x->mhd, (unsigned)reply->status, response);
	MHD_destroy_response(response);
	return r;
}

enum MHD_Result http_reply_fail(struct http_ask *x)
{
	struct http_reply reply = HTTP_REPLY_INIT;

	reply.status = status_of(x->q.error.code);
	if (x->door->server->wish.fail(&x->q, &reply) == 0)
		return http_reply_send(x, &reply);
	http_reply_done(&reply);
	return MHD_NO;
}
