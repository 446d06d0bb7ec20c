/*
 * The destination of requests: http://HOST[:PORT]/PATH, https://…, or unix:SOCKET[:/PATH] as nginx
 * writes it.
 */
#include "load/request.h"

#include <netdb.h>
#include <poll.h>
#include <sys/un.h>

#define TRY_MS 1000 /* for one address of several */

void target_done(struct target *t)
{
	free(t->host);
	free(t->port);
	free(t->socket);
	free(t->authority);
	free(t->path);
	*t = (struct target){ 0 };
}

/* Would it break a request's first line? */
static int has_odd_bytes(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == 0x7f)
			return 1;
	return 0;
}

static int parse_socket(const char *rest, struct target *t, struct mlr_error *err)
{
	const char *colon = strstr(rest, ":/");
	size_t n = colon ? (size_t)(colon - rest) : strlen(rest);

	if (!n)
		return mlr_fail(err, EINVAL, "no socket is named after unix:");
	t->socket = xstrndup(rest, n);
	t->authority = xstrdup("localhost");
	t->path = xstrdup(colon ? colon + 1 : "/");
	return 0;
}

static int parse_port(const char *s, size_t n, char **ret, struct mlr_error *err)
{
	unsigned v = 0;

	for (size_t i = 0; i < n && i < 6; i++)
		v = s[i] >= '0' && s[i] <= '9' ? 10 * v + (unsigned)(s[i] - '0') : 65536;
	if (!n || n > 5 || !v || v > 65535)
		return mlr_fail(err, EINVAL, "'%.*s' is not a port from 1 to 65535", (int)n, s);
	*ret = xstrndup(s, n);
	return 0;
}

/* HOST, HOST:PORT or [ADDRESS]:PORT. */
static int parse_authority(const char *s, size_t n, struct target *t, struct mlr_error *err)
{
	const char *bracket = *s == '[' ? memchr(s, ']', n) : NULL, *colon;
	size_t host = bracket ? (size_t)(bracket - s) + 1 : 0;

	if (*s == '[' && !bracket)
		return mlr_fail(err, EINVAL, "no ']' ends the address");
	if (memchr(s, '@', n)) {
		mlr_fail(err, EINVAL, "a name or password in a URL is not sent");
		return mlr_hint(
			err, "--token-file FILE or --header 'Authorization: ...' sends one");
	}
	colon = memchr(s + host, ':', n - host);
	if (!bracket)
		host = colon ? (size_t)(colon - s) : n;
	if (host + (bracket ? 0 : 1) <= (bracket ? 2 : 1) ||
		(bracket && host < n && s[host] != ':'))
		return mlr_fail(err, EINVAL, "it names no host");
	if (colon)
		TRY(parse_port(colon + 1, n - (size_t)(colon + 1 - s), &t->port, err));
	else
		t->port = xstrdup(t->tls ? "443" : "80");
	t->host = bracket ? xstrndup(s + 1, host - 2) : xstrndup(s, host);
	t->authority = xstrndup(s, n);
	return 0;
}

static int parse(const char *url, struct target *t, struct mlr_error *err)
{
	const char *rest, *query;
	size_t n;

	if (has_odd_bytes(url))
		return mlr_fail(err, EINVAL, "a URL has no blanks and no control characters");
	if (strncmp(url, "unix:", 5) == 0)
		return parse_socket(url + 5, t, err);
	t->tls = strncmp(url, "https://", 8) == 0;
	if (!t->tls && strncmp(url, "http://", 7) != 0) {
		mlr_fail(err, EINVAL, "it begins with none of http://, https:// and unix:");
		return strstr(url, "://") ? -EINVAL : mlr_hint(err, "is http://%s meant?", url);
	}
	rest = url + (t->tls ? 8 : 7);
	n = strcspn(rest, "/?#");
	query = rest + n;
	TRY(parse_authority(rest, n, t, err));
	/* A fragment is the reader's own (RFC 3986, 3.5). */
	t->path = xasprintf("%s%.*s", *query == '/' ? "" : "/", (int)strcspn(query, "#"), query);
	return 0;
}

int target_parse(const char *url, struct target *ret, struct mlr_error *err)
{
	struct target t = { 0 };

	if (parse(url, &t, err) < 0) {
		target_done(&t);
		return mlr_wrap(err, "URL '%s'", url);
	}
	*ret = t;
	return 0;
}

static int find_socket(struct target *t, struct mlr_error *err)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&t->address;

	if (strlen(t->socket) >= sizeof(un->sun_path))
		return mlr_fail(err, ENAMETOOLONG, "socket '%s': its path has more than %zu bytes",
			t->socket, sizeof(un->sun_path) - 1);
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, t->socket);
	t->len = sizeof(*un);
	return 0;
}

static int accepts(const struct addrinfo *a)
{
	auto_close int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int why = -1;

	if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS))
		return 0;
	return poll(&p, 1, TRY_MS) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 &&
		why == 0;
}

int target_find(struct target *t, struct mlr_error *err)
{
	const struct addrinfo wish = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *all, *taken;
	int r;

	if (t->socket)
		return find_socket(t, err);
	r = getaddrinfo(t->host, t->port, &wish, &all);
	if (r != 0)
		return mlr_fail(err, EHOSTUNREACH, "host '%s': %s", t->host,
			r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	taken = all;
	for (struct addrinfo *a = all; all->ai_next && a; a = a->ai_next)
		if (accepts(a)) {
			taken = a;
			break;
		}
	memcpy(&t->address, taken->ai_addr, taken->ai_addrlen);
	t->len = taken->ai_addrlen;
	freeaddrinfo(all);
	return 0;
}

char *target_shown(const struct target *t)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (t->socket)
		return xasprintf("unix:%s", t->socket);
	if (!t->len ||
		getnameinfo((const struct sockaddr *)&t->address, t->len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return xasprintf("%s:%s", t->host, t->port);
	return xasprintf(strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}
