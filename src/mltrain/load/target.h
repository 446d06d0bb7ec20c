/*
 * The destination of requests: http://HOST[:PORT]/PATH, https://…, or unix:SOCKET[:/PATH] as nginx
 * writes it.
 */
#ifndef MLT_LOAD_TARGET_H
#define MLT_LOAD_TARGET_H

#include "base/base.h"

#include <sys/socket.h>

struct target {
	int tls;
	char *host, *port; /* owned; NULL of a socket in the file system */
	char *socket;      /* its path, owned; NULL otherwise */
	char *authority;   /* for the header Host: "localhost:8000", owned */
	char *path;        /* with the query, at least "/"; owned */
	struct sockaddr_storage address;
	socklen_t len; /* 0: not known yet */
};

void target_done(struct target *t);

/* Returns 0, or -EINVAL with a text that names the URL and what is wrong with it. */
int target_parse(const char *url, struct target *ret, struct mlr_error *err);

/*
 * Look up the address. Of several it takes the first that accepts a connection, else the first.
 *
 * Returns 0, -EHOSTUNREACH if there is no such host, or -ENAMETOOLONG for a socket's path.
 */
int target_find(struct target *t, struct mlr_error *err);

/* Make "127.0.0.1:8000" or "unix:/run/s" for messages, to free(). */
char *target_shown(const struct target *t);

#endif
