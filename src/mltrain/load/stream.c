#include "load/stream.h"

#include "base/authorities.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/epoll.h>

static const char *tls_reason(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return reason ? reason : "no reason given";
}

int stream_tls_new(const char *ca, int verify, SSL_CTX **ret, struct mlr_error *err)
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

int stream_open(struct stream *s, const struct target *t, SSL_CTX *tls)
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

void stream_close(struct stream *s)
{
	if (s->ssl) {
		SSL_set_quiet_shutdown(s->ssl, 1);
		SSL_free(s->ssl);
	}
	fd_close(&s->fd);
	*s = (struct stream){ .fd = -1 };
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

int stream_connect(struct stream *s, char *why, size_t why_size)
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

ssize_t stream_read(struct stream *s, void *buf, size_t n)
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

ssize_t stream_write(struct stream *s, const void *buf, size_t n)
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
