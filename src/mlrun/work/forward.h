/*
 * Passes TCP connections on: from a port of the machine to another one, on 127.0.0.1, on which a
 * service's command listens. It is part of the supervisor's loop, so all descriptors are
 * non-blocking, and one of epoll(7) says when there is something to do.
 */
#pragma once

#include "base/base.h"

struct forward {
	int poll;  /* readable when there is something to do; -1: nothing is passed on */
	int spare; /* a descriptor that is given up when no other is left */
	struct forward_port *ports;
	size_t n;
	struct forward_link *links;
	char *buffer; /* of each turn */
};

#define FORWARD_INIT                    \
	{                               \
		.poll = -1, .spare = -1 \
	}
void forward_done(struct forward *f);

/*
 * Listen on each port that is not the command's own, and look whether the others are free.
 *
 *   ports  "PUBLISHED TARGET ADDRESS" each; without an address it is all of the machine's
 *
 * Returns 0, or -EADDRINUSE and kin, naming the port.
 */
int forward_open(const struct strv *ports, struct forward *ret, struct mlr_error *err);

/* May this user listen on such ports? Returns 0; -EACCES, naming the first that is root's, with the
 * way out. One in use is none of its business. */
int forward_may(const struct strv *ports, struct mlr_error *err);

/* Do what can be done now. */
void forward_turn(struct forward *f);
