#include "work/forward.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BYTES (64 << 10) /* that one direction of a connection keeps while the other side waits */
#define TURN  64         /* events of one turn */

/* The first member of what epoll points to. */
enum kind { PORT, SIDE };

struct forward_port {
	enum kind kind;
	int fd;
	uint16_t target;
};

/* One side of a connection. */
struct side {
	enum kind kind;
	int fd;
	struct side *other;
	struct forward_link *link;
	int ended;  /* it sends no more */
	int told;   /* and the other side knows */
	char *rest; /* what the other side could not take yet */
	size_t at, len;
	uint32_t watched;
};

struct forward_link {
	struct side sides[2];
	struct forward_link *next, **self;
};

static void drop(struct forward_link *l)
{
	for (int i = 0; i < 2; i++) {
		fd_close(&l->sides[i].fd);
		free(l->sides[i].rest);
	}
	*l->self = l->next;
	if (l->next)
		l->next->self = l->self;
	free(l);
}

void forward_done(struct forward *f)
{
	while (f->links)
		drop(f->links);
	for (size_t i = 0; i < f->n; i++)
		close(f->ports[i].fd);
	free(f->ports);
	free(f->buffer);
	fd_close(&f->poll);
	fd_close(&f->spare);
	*f = (struct forward)FORWARD_INIT;
}

/* --- listening ------------------------------------------------------------------------------- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Returns the length. */
static socklen_t make_address(const char *text, uint16_t port, union address *ret)
{
	*ret = (union address){ .v4 = { .sin_family = AF_INET, .sin_port = htons(port) } };
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1)
		return sizeof(ret->v4);
	*ret = (union address){ .v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	inet_pton(AF_INET6, *text ? text : "::", &ret->v6.sin6_addr);
	return sizeof(ret->v6);
}

/* All addresses are those of IPv6, which take IPv4's, too, unless the machine has none. */
static int listen_at(const char *text, uint16_t port)
{
	union address a;
	socklen_t len = make_address(text, port, &a);
	auto_close int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, off = 0;

	if (fd < 0)
		return errno == EAFNOSUPPORT && !*text ? listen_at("0.0.0.0", port) : -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!*text)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, &a.any, len) < 0 || listen(fd, 128) < 0)
		return -errno;
	return take_fd(&fd);
}

static int refuse(unsigned port, unsigned target, int code, struct mlr_error *err)
{
	mlr_fail(err, code, "port %u: %s", port, strerror(code));
	if (code != EACCES)
		return mlr_hint(err,
			"`ss -ltnp sport = :%u` shows the process that has it; end it, or write "
			"another port in 'ports'",
			port);
	return mlr_hint(err,
		"ports below net.ipv4.ip_unprivileged_port_start are root's: %s%u; or an "
		"administrator lowers it: sysctl net.ipv4.ip_unprivileged_port_start=%u",
		port == target ? "have the command listen on another, by its configuration or "
				 "variables, and write that one, such as 8080:"
			       : "write another in 'ports', such as 8080:",
		port == target ? 8080 : target, port);
}

/* Look whether a port can be had. Returns 0 or -errno. */
static int try_port(unsigned port)
{
	auto_close int fd = listen_at("", (uint16_t)port);

	return fd < 0 ? fd : 0;
}

int forward_may(const struct strv *ports, struct mlr_error *err)
{
	for (size_t i = 0; i < ports->n; i++) {
		unsigned port[2] = { 0, 0 };

		sscanf(ports->v[i], "%u %u", &port[0], &port[1]);
		for (int k = 1; k >= 0; k--)
			if (port[k] < IPPORT_RESERVED && try_port(port[k]) == -EACCES)
				return refuse(port[k], port[1], EACCES, err);
	}
	return 0;
}

static int add_port(const char *text, struct forward *f, struct mlr_error *err)
{
	const char *address = strrchr(text, ' ');
	unsigned published = 0, target = 0;
	int fd;

	sscanf(text, "%u %u", &published, &target);
	fd = try_port(target);
	if (fd < 0)
		return refuse(target, target, -fd, err);
	if (published == target)
		return 0;
	fd = listen_at(address ? address + 1 : "", (uint16_t)published);
	if (fd < 0)
		return refuse(published, target, -fd, err);
	f->ports[f->n++] = (struct forward_port){ PORT, fd, (uint16_t)target };
	return 0;
}

int forward_open(const struct strv *ports, struct forward *ret, struct mlr_error *err)
{
	auto_call(forward_done) struct forward f = FORWARD_INIT;

	f.ports = xcalloc(ports->n + 1, sizeof(*f.ports));
	for (size_t i = 0; i < ports->n; i++)
		TRY(add_port(ports->v[i], &f, err));
	f.poll = f.n > 0 ? epoll_create1(EPOLL_CLOEXEC) : -1;
	f.spare = f.n > 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	for (size_t i = 0; i < f.n; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = &f.ports[i] };

		if (epoll_ctl(f.poll, EPOLL_CTL_ADD, f.ports[i].fd, &e) < 0)
			return mlr_fail_errno(err, "epoll");
	}
	*ret = take_struct(&f, FORWARD_INIT);
	return 0;
}

/* --- connections ----------------------------------------------------------------------------- */

/* The command listens on IPv4's loopback address, or on IPv6's only. */
static int connect_to(uint16_t port)
{
	static const char *const loopback[] = { "127.0.0.1", "::1" };

	for (size_t i = 0; i < ARRAY_LEN(loopback); i++) {
		union address a;
		socklen_t len = make_address(loopback[i], port, &a);
		auto_close int fd =
			socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (fd >= 0 && (connect(fd, &a.any, len) == 0 || errno == EINPROGRESS))
			return take_fd(&fd);
	}
	return -ECONNREFUSED;
}

static int watch_first(struct forward *f, struct side *s)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = s };

	s->watched = EPOLLIN;
	return epoll_ctl(f->poll, EPOLL_CTL_ADD, s->fd, &e);
}

static void accept_one(struct forward *f, const struct forward_port *p)
{
	auto_close int from = accept4(p->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), to = -1;
	struct forward_link *l;

	/* Turn it away, else epoll would not let the loop sleep. */
	if (from < 0 && (errno == EMFILE || errno == ENFILE)) {
		fd_close(&f->spare);
		close(accept4(p->fd, NULL, NULL, SOCK_CLOEXEC));
		f->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	to = from < 0 ? -1 : connect_to(p->target);
	if (to < 0)
		return;
	l = xcalloc(1, sizeof(*l));
	l->next = f->links;
	l->self = &f->links;
	if (l->next)
		l->next->self = &l->next;
	f->links = l;
	l->sides[0] = (struct side){ SIDE, take_fd(&from), &l->sides[1], l };
	l->sides[1] = (struct side){ SIDE, take_fd(&to), &l->sides[0], l };
	/* Nobody would see what comes: end it, and the client knows. */
	if (watch_first(f, &l->sides[0]) < 0 || watch_first(f, &l->sides[1]) < 0)
		drop(l);
}

/* Keep what the other side does not take now. */
static void keep(struct side *s, const char *bytes, size_t len)
{
	if (!s->rest)
		s->rest = xmalloc(BYTES);
	memcpy(s->rest, bytes, len);
	s->at = 0;
	s->len = len;
}

/* Write what came from a side to the other one. Returns 0, or -errno of a connection that is over.
 */
static int pass(struct forward *f, struct side *s)
{
	const char *from = s->len > 0 ? s->rest + s->at : f->buffer;
	ssize_t n = (ssize_t)s->len, done;

	if (n == 0 && !s->ended) {
		n = recv(s->fd, f->buffer, BYTES, 0);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		s->ended = n == 0;
	}
	done = n > 0 ? send(s->other->fd, from, (size_t)n, MSG_NOSIGNAL) : 0;
	if (done < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	done = done < 0 ? 0 : done;
	if (from == f->buffer && done < n) {
		keep(s, from + done, (size_t)(n - done));
	} else if (s->len > 0) {
		s->at += (size_t)done;
		s->len -= (size_t)done;
	}
	if (s->ended && s->len == 0 && !s->told) {
		shutdown(s->other->fd, SHUT_WR);
		s->told = 1;
	}
	return 0;
}

/* What a side is watched for: more of it, if the other has taken all; or that it takes the rest. */
static void watch(struct forward *f, struct side *s)
{
	uint32_t wanted =
		(s->len == 0 && !s->ended ? EPOLLIN : 0) | (s->other->len > 0 ? EPOLLOUT : 0);
	struct epoll_event e = { .events = wanted, .data.ptr = s };

	if (wanted != s->watched)
		epoll_ctl(f->poll, EPOLL_CTL_MOD, s->fd, &e);
	s->watched = wanted;
}

static void turn(struct forward *f, struct side *s, uint32_t events)
{
	struct forward_link *l = s->link;
	int is_over = (events & EPOLLERR) != 0;

	/* It has ended and takes no more: epoll would say so for ever. */
	if (events & EPOLLHUP && s->ended)
		epoll_ctl(f->poll, EPOLL_CTL_DEL, s->fd, NULL);
	for (int i = 0; i < 2 && !is_over; i++)
		is_over = pass(f, &l->sides[i]) < 0;
	if (is_over || (l->sides[0].told && l->sides[1].told)) {
		drop(l);
		return;
	}
	watch(f, &l->sides[0]);
	watch(f, &l->sides[1]);
}

void forward_turn(struct forward *f)
{
	struct epoll_event e;

	/* One at a time: a second one may be of a connection that the first one ends. */
	for (int i = 0; i < TURN && f->poll >= 0 && epoll_wait(f->poll, &e, 1, 0) == 1; i++) {
		enum kind *kind = e.data.ptr;

		if (!f->buffer)
			f->buffer = xmalloc(BYTES);
		if (*kind == PORT)
			accept_one(f, e.data.ptr);
		else
			turn(f, e.data.ptr, e.events);
	}
}
