#include "dist/lifeline.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#define CONNECT_MS 1500 /* an unreachable address may not answer at all */
#define MEET_MS    6000

static void add_address(struct lifeline_offer *o, const struct ifaddrs *i)
{
	struct in6_addr *to = &o->address[o->addresses];

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
		o->addresses == LIFELINE_ADDRESSES)
		return;
	if (i->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *a = (const void *)i->ifa_addr;

		*to = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
		memcpy(to->s6_addr + 12, &a->sin_addr, 4);
		o->addresses++;
	} else if (i->ifa_addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *a = (const void *)i->ifa_addr;

		if (IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr))
			return;
		*to = a->sin6_addr;
		o->addresses++;
	}
}

/* A socket for IPv6 and IPv4, or for IPv4 alone if the kernel has no IPv6. */
static int any_socket(struct sockaddr_storage *any, socklen_t *len)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET };
	int zero = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		memcpy(any, &six, sizeof(six));
		*len = sizeof(six);
		return fd;
	}
	memcpy(any, &four, sizeof(four));
	*len = sizeof(four);
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static uint32_t port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
					      : ((const struct sockaddr_in *)a)->sin_port);
}

static void set_port(struct sockaddr_storage *a, int port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
}

int lifeline_listen(int port, struct lifeline_offer *offer)
{
	struct sockaddr_storage any = { 0 };
	struct ifaddrs *list = NULL;
	socklen_t len;
	int on = 1;
	auto_close int fd = any_socket(&any, &len);

	memset(offer, 0, sizeof(*offer));
	set_port(&any, port);
	if (port && fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, len) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&any, &len) < 0 ||
		getrandom(&offer->word, sizeof(offer->word), 0) != sizeof(offer->word) ||
		getifaddrs(&list) < 0)
		return -1;
	for (struct ifaddrs *i = list; i; i = i->ifa_next)
		add_address(offer, i);
	freeifaddrs(list);
	offer->port = port_of(&any);
	return take_fd(&fd);
}

int lifeline_offer(struct lifeline_offer *offer)
{
	return lifeline_listen(0, offer);
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
	struct sockaddr_in6 six = {
		.sin6_family = AF_INET6, .sin6_addr = *to, .sin6_port = htons((uint16_t)port)
	};
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int is_four = IN6_IS_ADDR_V4MAPPED(to), error = 0;
	socklen_t len = sizeof(error);
	auto_close int fd =
		socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(&four.sin_addr, to->s6_addr + 12, 4);
	if (fd < 0)
		return -1;
	if (connect(fd, is_four ? (void *)&four : (void *)&six,
		    is_four ? sizeof(four) : sizeof(six)) < 0 &&
		errno != EINPROGRESS)
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
			send(fd, &successor->word, sizeof(successor->word), MSG_NOSIGNAL) !=
				sizeof(successor->word))
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
		uint64_t word = 0;

		if (!ready_within(offered, POLLIN, (int)left))
			return -1;
		fd = accept4(offered, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 || !ready_within(fd, POLLIN, CONNECT_MS))
			continue;
		if (recv(fd, &word, sizeof(word), 0) != sizeof(word) || word != own->word)
			continue; /* a stranger, such as a port scan */
		lifeline_keep(fd);
		return take_fd(&fd);
	}
	return -1;
}
