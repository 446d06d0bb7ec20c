/*
 * Listens for connections to a rank of an elastic run: a socket and a thread that accepts callers
 * which prove to know the secret (secret.c) and then send a first frame. A caller that has proved
 * nothing gets two seconds and a few hundred bytes; the first failure is reported, and whatever
 * callers do, training goes on.
 */
#pragma once

#include "dist/frame.h"
#include "dist/lifeline.h"

#define LISTENER_BODY_MAX 1024 /* bytes of a first frame's body */

struct listener;

/* A connection that was accepted. */
struct guest {
	int fd; /* connected, non-blocking; belongs to the taker */
	struct frame first;
	uint8_t body[LISTENER_BODY_MAX];
};

/*
 * Listen, and start the thread.
 *
 *   port    0: any
 *   secret  copied
 *   offer   gets addresses and port
 *
 * Returns 0, -EADDRINUSE and kin, or -EAGAIN if no thread can start.
 */
int listener_open(uint32_t port, const struct secret *secret, struct listener **ret,
	struct lifeline_offer *offer, struct mlr_error *err);
void listener_close(struct listener **d);

/* Take the oldest guest whose first frame is of this kind. Returns 1, or 0 without one. */
int listener_take(struct listener *d, enum frame_kind kind, struct guest *ret);

/* Put one back, behind the others. */
void listener_give(struct listener *d, const struct guest *g);

/* Is there such a guest? */
int listener_has(struct listener *d, enum frame_kind kind);

/* Note that the owner waits for other ranks at this moment, mlr_now_ms(): who asks (FRAME_ASK) is
 * told so for some seconds. */
void listener_waits(struct listener *d, int64_t now);

/* Return a descriptor for poll(2) that is readable after a guest was accepted; listener_seen()
 * empties it.
 */
int listener_fd(const struct listener *d);
void listener_seen(struct listener *d);
