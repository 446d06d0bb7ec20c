#include "dist/lifeline.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#define CONNECT_MS 1500 /* an unreachable address may not answer at all */
#define MEET_MS    6000

int lifeline_address(const struct sockaddr *from, struct in6_addr *ret)
{
	if (from->sa_family == AF_INET) {
		*ret = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
		memcpy(ret->s6_addr + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
	} else if (from->sa_family == AF_INET6) {
		*ret = ((const struct sockaddr_in6 *)from)->sin6_addr;
	}
	return from->sa_family == AF_INET || from->sa_family == AF_INET6;
}

socklen_t lifeline_sockaddr(
	const struct in6_addr *from, uint32_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *four = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	if (IN6_IS_ADDR_V4MAPPED(from)) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
		memcpy(&four->sin_addr, from->s6_addr + 12, 4);
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons((uint16_t)port);
	six->sin6_addr = *from;
	return sizeof(*six);
}

static void add_address(struct lifeline_offer *o, const struct ifaddrs *i)
{
	struct in6_addr a;

	if (i->ifa_addr && (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK) &&
		o->addresses < LIFELINE_ADDRESSES && lifeline_address(i->ifa_addr, &a) &&
		!IN6_IS_ADDR_LINKLOCAL(&a))
		o->address[o->addresses++] = a;
}

/* Make a socket for IPv6 and IPv4, or for IPv4 only if the kernel has no IPv6. */
static int any_socket(struct in6_addr *any)
{
	int zero = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*any = in6addr_any;
	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		return fd;
	}
	any->s6_addr[10] = any->s6_addr[11] = 0xff;
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int lifeline_listen(uint32_t port, struct lifeline_offer *offer)
{
	struct sockaddr_storage at;
	struct ifaddrs *list = NULL;
	struct in6_addr any;
	int on = 1;
	auto_close int fd = any_socket(&any);
	socklen_t len = lifeline_sockaddr(&any, port, &at);

	memset(offer, 0, sizeof(*offer));
	if (port && fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
		getrandom(&offer->token, sizeof(offer->token), 0) != sizeof(offer->token) ||
		getifaddrs(&list) < 0)
		return -1;
	for (struct ifaddrs *i = list; i; i = i->ifa_next)
		add_address(offer, i);
	freeifaddrs(list);
	/* IPv4's port lies in the same place. */
	offer->port = ntohs(((const struct sockaddr_in6 *)&at)->sin6_port);
	return take_fd(&fd);
}

/* Notice a silent node after 10 + 3 * 5 seconds, LIFELINE_SILENCE_MS, and send at once what is
 * small (tcp(7)). */
void lifeline_keep(int fd)
{
	int on = 1, idle_s = 10, interval_s = 5, count = 3;
	unsigned unanswered_ms = LIFELINE_SILENCE_MS; /* of bytes that were sent */

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
}

static int ready_within(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, timeout_ms) == 1 && !(p.revents & (POLLERR | POLLNVAL));
}

int lifeline_connect(const struct in6_addr *to, uint32_t port)
{
	struct sockaddr_storage at;
	int error = 0;
	socklen_t at_len = lifeline_sockaddr(to, port, &at), len = sizeof(error);
	auto_close int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&at, at_len) < 0 && errno != EINPROGRESS)
		return -1;
	if (poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, CONNECT_MS) != 1)
		error = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -1;
	if (error) {
		errno = error;
		return -1;
	}
	return take_fd(&fd);
}

int lifeline_is_own(const struct in6_addr *a, const struct lifeline_offer *own)
{
	for (uint32_t i = 0; own && i < own->addresses; i++)
		if (memcmp(a, &own->address[i], sizeof(*a)) == 0)
			return 1;
	return 0;
}

int lifeline_take(const struct lifeline_offer *successor, const struct lifeline_offer *own)
{
	for (uint32_t i = 0; i < successor->addresses && i < LIFELINE_ADDRESSES; i++) {
		auto_close int fd = -1;

		if (lifeline_is_own(&successor->address[i], own))
			continue;
		fd = lifeline_connect(&successor->address[i], successor->port);
		if (fd < 0 ||
			send(fd, &successor->token, sizeof(successor->token), MSG_NOSIGNAL) !=
				sizeof(successor->token))
			continue;
		lifeline_keep(fd);
		return take_fd(&fd);
	}
	return -1;
}

int lifeline_give(int offered, const struct lifeline_offer *own)
{
	long long end = mlr_now_ms() + MEET_MS;

	for (long long left = MEET_MS; left > 0; left = end - mlr_now_ms()) {
		auto_close int fd = -1;
		uint64_t token = 0;

		if (!ready_within(offered, POLLIN, (int)left))
			return -1;
		fd = accept4(offered, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 || !ready_within(fd, POLLIN, CONNECT_MS))
			continue;
		if (recv(fd, &token, sizeof(token), 0) != sizeof(token) || token != own->token)
			continue; /* a stranger, such as a port scan */
		lifeline_keep(fd);
		return take_fd(&fd);
	}
	return -1;
}
