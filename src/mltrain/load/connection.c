#include "load/connection.h"

#include "base/authorities.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/epoll.h>

/* --- streams: they never block, over TCP or a socket in the file system, with or without TLS ---
 */

static const char *tls_reason(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return reason ? reason : "no reason given";
}

int connection_tls_new(const char *ca, int verify, SSL_CTX **ret, struct mlr_error *err)
{
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());
	const char *machines = ca ? NULL : authorities_file();

	if (!c)
		return mlr_fail(err, ENOMEM, "TLS: %s", tls_reason());
	SSL_CTX_set_mode(c,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(c, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	/* A server that goes without saying goodbye is treated as one without TLS. */
	SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF);
	if (ca && SSL_CTX_load_verify_file(c, ca) != 1) {
		mlr_fail(err, EINVAL, "certificates of authorities '%s': %s", ca, tls_reason());
		SSL_CTX_free(c);
		return -EINVAL;
	}
	if (!ca && (!machines || SSL_CTX_load_verify_file(c, machines) != 1))
		SSL_CTX_set_default_verify_paths(c);
	*ret = c;
	return 0;
}

/* The name that the certificate must have, which the server is also asked for. */
static int tls_begin(struct stream *s, const struct target *t, SSL_CTX *tls)
{
	const char *host = t->host ? t->host : "localhost";
	struct in6_addr any;
	int is_address = t->address.ss_family == AF_INET ? inet_pton(AF_INET, host, &any) == 1
							 : inet_pton(AF_INET6, host, &any) == 1;

	s->ssl = SSL_new(tls);
	if (!s->ssl || SSL_set_fd(s->ssl, s->fd) != 1)
		return -ENOMEM;
	SSL_set_connect_state(s->ssl);
	if (is_address)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), host) == 1 ? 0
											: -EINVAL;
	SSL_set_tlsext_host_name(s->ssl, host);
	return SSL_set1_host(s->ssl, host) == 1 ? 0 : -EINVAL;
}

static void stream_close(struct stream *s)
{
	if (s->ssl) {
		SSL_set_quiet_shutdown(s->ssl, 1);
		SSL_free(s->ssl);
	}
	fd_close(&s->fd);
	*s = (struct stream){ .fd = -1 };
}

/* Begin to connect. Returns 0, or -errno with the stream closed. */
static int stream_open(struct stream *s, const struct target *t, SSL_CTX *tls)
{
	const int on = 1;
	int r = 0;

	*s = (struct stream){ .fd = socket(t->address.ss_family,
				      SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
		.wants = EPOLLOUT };
	if (s->fd < 0)
		return -errno;
	if (!t->socket)
		setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(s->fd, (const struct sockaddr *)&t->address, t->len) < 0 &&
		errno != EINPROGRESS)
		r = -errno;
	if (r == 0 && tls)
		r = tls_begin(s, t, tls);
	if (r < 0)
		stream_close(s);
	return r;
}

/* Translate the result of a call of OpenSSL: -EAGAIN, 0 at the end, or -errno. */
static ssize_t tls_result(struct stream *s, int r)
{
	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		s->wants = EPOLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->wants = EPOLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return errno ? -errno : -ECONNRESET;
	default:
		return -EPROTO;
	}
}

static void tls_why(const struct stream *s, char *why, size_t size)
{
	long r = SSL_get_verify_result(s->ssl);

	snprintf(why, size, "%s", r != X509_V_OK ? X509_verify_cert_error_string(r) : tls_reason());
}

/*
 * Go on connecting, once the stream is ready for what it wants.
 *
 *   why   for a failed handshake, what is wrong in words
 *
 * Returns 0 when it is made, -EAGAIN, -EPROTO for a handshake that failed, or -errno.
 */
static int stream_connect(struct stream *s, char *why, size_t why_size)
{
	socklen_t len = sizeof(int);
	int r = 0;

	if (!s->ssl || SSL_get_state(s->ssl) == TLS_ST_BEFORE) {
		if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &r, &len) < 0)
			return -errno;
		if (r)
			return -r;
	}
	if (!s->ssl)
		return 0;
	ERR_clear_error();
	errno = 0;
	r = SSL_do_handshake(s->ssl);
	if (r == 1)
		return 0;
	r = (int)tls_result(s, r);
	if (r == 0)
		r = -ECONNRESET;
	if (r == -EPROTO)
		tls_why(s, why, why_size);
	return r;
}

/* As read(2), and below as write(2): a count, 0 at the end, -EAGAIN, or -errno. */
static ssize_t stream_read(struct stream *s, void *buf, size_t n)
{
	size_t got;
	ssize_t r;

	if (s->ssl) {
		ERR_clear_error();
		errno = 0;
		r = SSL_read_ex(s->ssl, buf, n, &got);
		return r == 1 ? (ssize_t)got : tls_result(s, (int)r);
	}
	r = recv(s->fd, buf, n, 0);
	s->wants = EPOLLIN;
	return r < 0 ? -errno : r;
}

static ssize_t stream_write(struct stream *s, const void *buf, size_t n)
{
	size_t put;
	ssize_t r;

	if (s->ssl) {
		ERR_clear_error();
		errno = 0;
		r = SSL_write_ex(s->ssl, buf, n, &put);
		return r == 1 ? (ssize_t)put : tls_result(s, (int)r);
	}
	r = send(s->fd, buf, n, MSG_NOSIGNAL);
	s->wants = EPOLLOUT;
	return r < 0 ? -errno : r;
}

/* --- queues ----------------------------------------------------------------------------- */

void connection_dequeue(struct connection *c)
{
	struct connection_queue *q = c->queue;

	if (!q)
		return;
	*(c->before ? &c->before->after : &q->first) = c->after;
	*(c->after ? &c->after->before : &q->last) = c->before;
	c->queue = NULL;
	c->before = c->after = NULL;
}

void connection_enqueue(struct connection_queue *q, struct connection *c, uint64_t at)
{
	connection_dequeue(c);
	c->queue = q;
	c->at = at;
	c->before = q->last;
	*(q->last ? &q->last->after : &q->first) = c;
	q->last = c;
}

/* --- checks ----------------------------------------------------------------------------- */

static void header(void *ctx, const char *name, size_t name_len, const char *value, size_t len)
{
	struct connection *c = ctx;

	for (size_t i = 0; i < c->o->n_checks; i++) {
		const struct check *k = &c->o->checks[i];

		if (k->subject == CHECK_HEADER && strlen(k->name) == name_len &&
			strncasecmp(k->name, name, name_len) == 0 && check_bytes(k, value, len))
			c->checks |= 1u << i;
	}
}

void connection_check(const struct connection *c, struct results *r)
{
	const struct answer *a = &c->answer;

	for (size_t i = 0; i < c->o->n_checks; i++) {
		struct check *k = &c->o->checks[i];
		int passed = k->subject == CHECK_STATUS ? check_status(k, a->status)
			: k->subject == CHECK_BODY      ? check_bytes(k, a->body, a->kept)
							: (int)(c->checks >> i & 1);

		*(passed ? &k->passed : &k->failed) += 1;
		*(passed ? &r->checks_passed : &r->checks_failed) += 1;
	}
}

/* --- one connection --------------------------------------------------------------------- */

void connection_init(struct connection *c, const struct load_options *o)
{
	*c = (struct connection){ .stream.fd = -1, .o = o };
	for (size_t i = 0; i < o->n_checks; i++) {
		if (o->checks[i].subject == CHECK_HEADER)
			c->answer.header = header;
		if (o->checks[i].subject == CHECK_BODY)
			c->answer.keep_max = CHECK_BODY_MAX;
	}
	c->answer.ctx = c;
}

void connection_done(struct connection *c)
{
	connection_close(c);
	answer_done(&c->answer);
	free(c->buffer.bytes);
}

void connection_drop(struct connection *c)
{
	stream_close(&c->stream);
	c->state = CONNECTION_OFF;
	c->watched = 0;
}

void connection_close(struct connection *c)
{
	connection_dequeue(c);
	connection_drop(c);
}

static enum connection_event fail(
	struct connection_failure *f, enum results_kind kind, const char *what)
{
	f->kind = kind;
	snprintf(f->text, sizeof(f->text), "%s", what);
	return CONNECTION_FAILED;
}

static enum connection_event watch(
	struct connection *c, int poll, uint32_t events, struct connection_failure *f)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (c->watched == events)
		return CONNECTION_WAITS;
	if (epoll_ctl(poll, c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->stream.fd, &e) < 0)
		return fail(f, RESULTS_CONNECT, strerror(errno));
	c->watched = events;
	return CONNECTION_WAITS;
}

/* Send the rest. A server that closes before it has everything may have answered why: so a failure
 * to send is not reported, and the answer is read. */
static void send_some(struct connection *c, struct results *r)
{
	while (c->left) {
		const char *p = c->request.bytes + c->request.len - c->left;
		ssize_t n = stream_write(&c->stream, p, c->left);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			c->left = 0;
			c->answer.closes = 1;
			return;
		}
		c->left -= (size_t)n;
		r->sent += (uint64_t)n;
		r->row.sent += (uint64_t)n;
	}
}

static enum connection_event ask(struct connection *c, int poll, uint64_t now, struct results *r,
	struct connection_failure *f)
{
	c->state = CONNECTION_ASKING;
	c->has_request = 0;
	c->checks = 0;
	c->left = c->request.len;
	if (c->o->stages.n) /* a closed loop's clock begins now */
		c->due = now;
	answer_begin(&c->answer, strcmp(requests_method(c->o->requests), "HEAD") == 0);
	send_some(c, r);
	return watch(c, poll, c->left ? EPOLLIN | EPOLLOUT : EPOLLIN, f);
}

static enum connection_event connected(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f)
{
	r->connections++;
	r->connect_seconds += (double)(now - c->began) * 1e-9;
	if (c->has_request)
		return ask(c, poll, now, r, f);
	c->state = CONNECTION_IDLE;
	watch(c, poll, EPOLLIN, f);
	return CONNECTION_READY;
}

static enum connection_event go_on_connecting(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f)
{
	char why[120] = "";
	int n = stream_connect(&c->stream, why, sizeof(why));

	if (n == -EAGAIN)
		return watch(c, poll, c->stream.wants, f);
	if (n == 0)
		return connected(c, poll, now, r, f);
	return *why ? fail(f, RESULTS_TLS, why) : fail(f, RESULTS_CONNECT, strerror(-n));
}

enum connection_event connection_begin(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f)
{
	int n;

	c->began = now;
	if (c->state == CONNECTION_IDLE)
		return ask(c, poll, now, r, f);
	c->state = CONNECTION_MAKING;
	n = stream_open(&c->stream, c->o->target, c->o->tls);
	if (n < 0)
		return fail(f, RESULTS_CONNECT, strerror(-n));
	return watch(c, poll, EPOLLOUT, f);
}

static enum connection_event read_answer(
	struct connection *c, struct results *r, struct connection_failure *f)
{
	static char bytes[65536];
	size_t used;
	ssize_t n;
	int done;

	do {
		n = stream_read(&c->stream, bytes, sizeof(bytes));
		if (n == -EAGAIN)
			return CONNECTION_WAITS;
		if (n == 0 && answer_end(&c->answer))
			return CONNECTION_ANSWERED;
		if (n <= 0)
			return fail(f, RESULTS_CLOSED,
				n < 0 ? strerror((int)-n)
				      : "the server closed the connection before the answer's end");
		r->received += (uint64_t)n;
		r->row.received += (uint64_t)n;
		done = answer_read(&c->answer, bytes, (size_t)n, &used);
		if (done == -EFBIG)
			return fail(f, RESULTS_SIZE,
				"the answer has no end, or none that this program waits for");
		if (done < 0)
			return fail(f, RESULTS_GARBAGE, "the answer is not HTTP/1");
		if (done) {
			/* More than the answer, or an answer to half a request: nothing can follow.
			 */
			if (used < (size_t)n || c->left)
				c->answer.keeps_alive = 0;
			return CONNECTION_ANSWERED;
		}
		/* TLS keeps the rest of a record. */
	} while (c->stream.ssl || (size_t)n == sizeof(bytes));
	return CONNECTION_WAITS;
}

static enum connection_event go_on_asking(
	struct connection *c, int poll, struct results *r, struct connection_failure *f)
{
	enum connection_event e;

	if (c->left)
		send_some(c, r);
	e = read_answer(c, r, f);
	if (e != CONNECTION_WAITS)
		return e;
	return watch(c, poll, c->left ? EPOLLIN | EPOLLOUT : c->stream.wants | EPOLLIN, f);
}

enum connection_event connection_go(struct connection *c, int poll, uint64_t now, struct results *r,
	struct connection_failure *f)
{
	char byte;

	switch (c->state) {
	case CONNECTION_MAKING:
		return go_on_connecting(c, poll, now, r, f);
	case CONNECTION_ASKING:
		return go_on_asking(c, poll, r, f);
	case CONNECTION_IDLE: /* it can bring only its end, and at most a session's ticket of TLS */
		return stream_read(&c->stream, &byte, 1) == -EAGAIN ? CONNECTION_WAITS
								    : CONNECTION_LOST;
	default:
		return CONNECTION_WAITS;
	}
}
