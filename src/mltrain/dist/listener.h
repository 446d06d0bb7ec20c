/*
 * The door of a rank of an elastic run: a listening socket and a thread that lets in who proves to
 * have the secret (secret.h) and then sends one first frame. Strangers get two seconds and a few
 * hundred bytes; the first of them is reported, and whatever they do, training goes on.
 */
#ifndef MLT_DIST_DOOR_H
#define MLT_DIST_DOOR_H

#include "dist/frame.h"
#include "dist/lifeline.h"
#include "dist/secret.h"

#define DOOR_BODY_MAX 1024 /* bytes of a first frame's body */

struct door;

/* A connection that was let in. */
struct guest {
	int fd; /* the taker's: connected, non-blocking */
	struct frame first;
	uint8_t body[DOOR_BODY_MAX];
};

/*
 * Open a door and start its thread.
 *
 *   port    0: any
 *   secret  copied
 *   offer   gets where it is
 *
 * Returns 0, -EADDRINUSE and kin, or -EAGAIN if no thread can start.
 */
int door_open(int port, const struct secret *secret, struct door **ret,
	struct lifeline_offer *offer, struct mlr_error *err);
void door_close(struct door **d);

/* Take a guest whose first frame is of this kind, the one that came first. Returns 1, or 0 if there
 * is none. */
int door_take(struct door *d, enum frame_kind kind, struct guest *ret);

/* Put one back, behind the others. */
void door_give(struct door *d, const struct guest *g);

/* Is there such a guest? */
int door_has(struct door *d, enum frame_kind kind);

/* A descriptor for poll(2) that is readable after a guest has come in; door_seen() empties it. */
int door_fd(const struct door *d);
void door_seen(struct door *d);

#endif
