#include "http/http.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BACKLOG 1024

/* Is nobody at the other end? Only then may the name be taken. */
static int is_dead(const struct sockaddr_un *a)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	return lstat(a->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) && fd >= 0 &&
		connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED;
}

static int listen_local(const char *path, int *ret_fd, struct mlr_error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (!*path || strlen(path) >= sizeof(a.sun_path))
		return mlr_fail(
			err, EINVAL, "a socket's path has 1 to %zu bytes", sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (is_dead(&a))
		unlink(path);
	if (fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(fd, BACKLOG) < 0)
		return mlr_fail_errno(err, "listen on '%s'", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int is_loopback(const struct sockaddr *a)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

	if (a->sa_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* A restarted server's port has connections of the former one in TIME_WAIT. */
static int listen_on(const struct addrinfo *i, int shares, int *ret_fd, struct mlr_error *err)
{
	auto_close int fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		(shares && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0) ||
		bind(fd, i->ai_addr, i->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return mlr_fail_errno(err, "listen");
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Split HOST:PORT. The brackets of [::1]:8000 go. */
static int split(
	const char *where, char *host, size_t size, const char **port, struct mlr_error *err)
{
	const char *colon = strrchr(where, ':');
	size_t n = colon ? (size_t)(colon - where) : 0;

	if (n > 2 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	} else if (memchr(where, ':', n)) {
		n = 0;
	}
	if (!n || n >= size || !colon[1]) {
		mlr_fail(err, EINVAL, "no such address");
		return mlr_hint(err, "give HOST:PORT, [IPv6]:PORT or unix:PATH");
	}
	memcpy(host, where, n);
	host[n] = '\0';
	*port = colon + 1;
	return 0;
}

static char *name_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0 ||
		getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return xstrdup("http");
	return xasprintf(a.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host, port);
}

int http_listen(const char *where, int shares, struct http_socket *ret, struct mlr_error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	char host[NI_MAXHOST];
	const char *port = NULL;
	int r;

	*ret = (struct http_socket){ .fd = -1, .reach = HTTP_FILE, .shares = shares };
	if (strncmp(where, "unix:", 5) == 0 && shares) {
		mlr_fail(err, EINVAL, "servers cannot share a socket in the file system");
		return mlr_hint(err, "give HOST:PORT");
	}
	if (strncmp(where, "unix:", 5) == 0) {
		r = listen_local(where + 5, &ret->fd, err);
		if (r == 0)
			ret->name = xstrdup(where);
		return r;
	}
	TRY(split(where, host, sizeof(host), &port, err));
	r = getaddrinfo(host, port, &hints, &list);
	if (r != 0)
		return mlr_fail(err, EINVAL, "no such address: %s", gai_strerror(r));
	ret->reach = is_loopback(list->ai_addr) ? HTTP_LOOPBACK : HTTP_NETWORK;
	r = listen_on(list, shares, &ret->fd, err);
	freeaddrinfo(list);
	if (r == 0)
		ret->name = name_of(ret->fd);
	return r;
}
