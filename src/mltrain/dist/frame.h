/*
 * Frames between the ranks of an elastic run, over TCP: a head of 16 bytes, then a body of at most
 * what the reader allows. The head's numbers are little-endian. Bodies are structs and arrays as
 * the machine has them; all ranks have one byte order, as who has another is refused.
 *
 *   bytes 0-3   "mlt" and the version of this form, '1'
 *   byte  4     the kind
 *   bytes 5-7   0
 *   bytes 8-11  bytes of the body
 *   bytes 12-15 the generation of the sender's group
 *
 * Sockets are non-blocking; the functions here wait for them.
 */
#pragma once

#include "base/base.h"

#define FRAME_HEAD 16

enum frame_kind {
	FRAME_JOIN = 1, /* a newcomer wants to become a rank: struct group_join */
	FRAME_REJOIN,   /* a rank has lost its coordinator and takes the receiver for the next:
			   struct group_report */
	FRAME_RING,     /* the predecessor in the ring */
	FRAME_WATCH,    /* the sender leads now and waits for the receiver to call; the connection
			   shows the end of either process: struct group_report */
	FRAME_REPORT,   /* where a rank stands at a change: struct group_report */
	FRAME_GROUP,    /* the next generation: struct group */
	FRAME_BYE,      /* this rank may leave */
	FRAME_REFUSED,  /* this process is no member; the body says why */
	FRAME_BROKEN,   /* a rank of this generation was lost */
	FRAME_SUM,      /* doubles */
	FRAME_BYTES,    /* bytes of a gather, a broadcast or of weights */
	FRAME_END,      /* the run is over */
	FRAME_ASK,      /* does the receiver wait, too? The answer is a byte, 0 or 1 */
	FRAME_KINDS,
};

struct frame {
	enum frame_kind kind;
	uint32_t size; /* of the body */
	uint32_t generation;
};

void frame_write_head(const struct frame *f, uint8_t head[FRAME_HEAD]);

/* Returns 0, or -EPROTO for bytes that are no head, -EMSGSIZE for a body above limit. */
int frame_parse_head(
	const uint8_t head[FRAME_HEAD], size_t limit, struct frame *ret, struct mlr_error *err);

/* Have waits without a limit call turn once a second; a negative result ends the wait.
 *
 *   since   the wait's beginning, mlr_now_ms()
 */
void frame_wait_by(int (*turn)(void *ctx, int64_t since, struct mlr_error *err), void *ctx);

/*
 * Send or receive so many bytes.
 *
 *   timeout_ms   of the whole; negative: wait as long as the connection stands
 *
 * Returns 0, -ETIMEDOUT, -ECONNRESET if the other end has closed it, or the errno of send or recv.
 */
int frame_send_bytes(int fd, const void *bytes, size_t n, int timeout_ms, struct mlr_error *err);
int frame_recv_bytes(int fd, void *bytes, size_t n, int timeout_ms, struct mlr_error *err);

/* Send one frame; as above. */
int frame_send(int fd, enum frame_kind kind, uint32_t generation, const void *body, size_t size,
	int timeout_ms, struct mlr_error *err);

/* Receive one frame's head; its body is frame_recv_bytes()'s. Also -EPROTO and -EMSGSIZE. */
int frame_recv_head(int fd, size_t limit, struct frame *ret, int timeout_ms, struct mlr_error *err);

/* Receive and forget a body. */
int frame_skip(int fd, size_t size, struct mlr_error *err);

/* Look at the head of the next frame without taking it. Returns 1, 0 if it is not there yet,
 * -ECONNRESET if the connection has ended, -EPROTO. */
int frame_peek(int fd, struct frame *ret);

/* --- secret.c: how two processes prove to each other that they know the secret of a run --- */

#define SECRET_SIZE      32
#define SECRET_HEX_SIZE  (2 * SECRET_SIZE + 1)
#define SECRET_TEXT_MIN  16 /* characters of a secret that a person chose */
#define SECRET_TEXT_MAX  4096
#define SECRET_CHALLENGE (16 + SECRET_SIZE)
#define SECRET_ANSWER    (2 * SECRET_SIZE)

struct secret {
	uint8_t bytes[SECRET_SIZE];
};

/* Draw random bytes. Returns 0 or an errno of getrandom(2). */
int secret_make(struct secret *ret, struct mlr_error *err);

/* Write it as hexadecimal digits, for the rendezvous file. secret_parse() returns 0 or -EPROTO. */
void secret_hex(const struct secret *s, char hex[SECRET_HEX_SIZE]);
int secret_parse(const char *hex, struct secret *ret, struct mlr_error *err);

/* Make one of a text that a person chose. Returns 0, or -EINVAL if it is short. */
int secret_of_text(const char *text, struct secret *ret, struct mlr_error *err);

/* HMAC-SHA256 (RFC 2104) of parts, one after another; at most 8. */
void secret_hmac(const struct secret *s, const struct iovec *parts, size_t n, uint8_t mac[32]);

/* The listener's side, in pieces, since it must not wait for unknown callers. secret_check()
 * returns whether the caller's answer is right, and fills in the listener's. */
int secret_challenge(uint8_t challenge[SECRET_CHALLENGE]);
int secret_check(const struct secret *s, const uint8_t challenge[SECRET_CHALLENGE],
	const uint8_t answer[SECRET_ANSWER], uint8_t proof[SECRET_SIZE]);

/* The caller's side, over a connected socket. Returns 0, -EACCES if the listener has another
 * secret or is something else, -EPROTO if its machine has another byte order, -ETIMEDOUT, or the
 * errno of send or recv. */
int secret_call(int fd, const struct secret *s, int timeout_ms, struct mlr_error *err);
