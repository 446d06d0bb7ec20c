/*
 * A lifeline: an idle TCP connection between two ranks. The kernel breaks it when either process
 * ends, however it ends; TCP's keepalive breaks it when a node dies. It watches ranks that do not
 * share a PID namespace.
 *
 * Each rank offers a port and connects to its successor's. This makes a ring, so two other ranks
 * notice the end of any rank.
 */
#pragma once

#include "base/base.h"

#include <netinet/in.h>

#define LIFELINE_ADDRESSES 6

/* A rank's addresses and port, as bytes for the others. */
struct lifeline_offer {
	struct in6_addr address[LIFELINE_ADDRESSES]; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t addresses;
	uint32_t port;
	uint64_t token; /* the predecessor proves itself with it */
};

/* Convert an address of IPv4 or IPv6; returns whether it is one. */
int lifeline_address(const struct sockaddr *from, struct in6_addr *ret);

/* Convert it back, for bind(2) and connect(2). Returns the length. */
socklen_t lifeline_sockaddr(
	const struct in6_addr *from, uint32_t port, struct sockaddr_storage *ret);

/* Listen on all of this machine's addresses; port 0: any. Returns a descriptor and fills offer, or
 * -1. */
int lifeline_listen(uint32_t port, struct lifeline_offer *offer);

/* Connect to one address. Returns a connected, non-blocking descriptor, or -1 with errno if it does
 * not answer within seconds. */
int lifeline_connect(const struct in6_addr *to, uint32_t port);

/* Is it one of own's addresses? */
int lifeline_is_own(const struct in6_addr *a, const struct lifeline_offer *own);

#define LIFELINE_SILENCE_MS 25000

/* Have the kernel break the connection after so long a silence of the other node. */
void lifeline_keep(int fd);

/*
 * Connect to the successor.
 *
 *   own  this node's addresses, which are not tried: every node may have a 172.17.0.1. NULL: the
 *        successor is on this machine
 *
 * Returns a connected descriptor, or -1 when no address answers within seconds.
 */
int lifeline_take(const struct lifeline_offer *successor, const struct lifeline_offer *own);

/* Wait some seconds for the predecessor on an offered descriptor. Returns a connected descriptor or
 * -1. The offered one stays the caller's. */
int lifeline_give(int offered, const struct lifeline_offer *own);
