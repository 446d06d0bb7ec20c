/* A connection that never blocks, over TCP or a socket in the file system, with or without TLS. */
#ifndef MLT_LOAD_STREAM_H
#define MLT_LOAD_STREAM_H

#include "load/target.h"

#include <openssl/types.h>

struct stream {
	int fd;         /* -1: not open */
	SSL *ssl;       /* NULL without TLS */
	uint32_t wants; /* after -EAGAIN: EPOLLIN or EPOLLOUT */
};

/*
 * What all TLS connections share.
 *
 *   ca      a PEM file of authorities to trust; NULL: the machine's
 *   verify  0: any certificate will do
 *
 * Returns 0, or -EINVAL for a file without certificates. SSL_CTX_free() releases ret.
 */
int stream_tls_new(const char *ca, int verify, SSL_CTX **ret, struct mlr_error *err);

/*
 * Begin to connect.
 *
 *   tls   NULL: without
 *
 * Returns 0, or -errno with the stream closed.
 */
int stream_open(struct stream *s, const struct target *t, SSL_CTX *tls);

void stream_close(struct stream *s);

/*
 * Go on connecting, once the stream is ready for what it wants.
 *
 *   why   for a failed handshake, what is wrong in words
 *
 * Returns 0 when it is made, -EAGAIN, -EPROTO for a handshake that failed, or -errno.
 */
int stream_connect(struct stream *s, char *why, size_t why_size);

/* As read(2) and write(2): a count, 0 at the end, -EAGAIN, or -errno. */
ssize_t stream_read(struct stream *s, void *buf, size_t n);
ssize_t stream_write(struct stream *s, const void *buf, size_t n);

#endif
