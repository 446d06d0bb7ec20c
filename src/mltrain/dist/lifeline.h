/*
 * A TCP connection between two ranks on which nothing is said: the kernel breaks it when either
 * process ends, however it ends, and TCP's keepalive when its node does. Ranks that have no PID in
 * common are watched by it.
 *
 * Each rank offers a port and takes hold of its successor's: a ring, so that the end of any rank is
 * seen by two others.
 */
#ifndef MLT_DIST_LIFELINE_H
#define MLT_DIST_LIFELINE_H

#include <netinet/in.h>
#include <stdint.h>

#define LIFELINE_ADDRESSES 6

/* Where a rank can be reached, as bytes for the others. */
struct lifeline_offer {
	struct in6_addr address[LIFELINE_ADDRESSES]; /* IPv4's as ::ffff:a.b.c.d */
	uint32_t addresses;
	uint32_t port;
	uint64_t word; /* who says it is the predecessor meant */
};

/* Listen on all of this machine's addresses. Returns a descriptor and fills offer, or -1. */
int lifeline_offer(struct lifeline_offer *offer);

/*
 * Take hold of the successor.
 *
 *   own  addresses of one's own are not tried: every node has a 172.17.0.1. NULL: same machine
 *
 * Returns a connected descriptor, or -1 when no address answers within seconds.
 */
int lifeline_take(const struct lifeline_offer *successor, const struct lifeline_offer *own);

/* Wait some seconds for the predecessor on an offered descriptor. Returns a connected descriptor or
 * -1. The offered one stays the caller's. */
int lifeline_give(int offered, const struct lifeline_offer *own);

#endif
