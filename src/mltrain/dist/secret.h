/*
 * The secret of an elastic run, and how two processes prove to each other that they have it before
 * anything else is said: a challenge and a response each way, with HMAC-SHA256 (RFC 2104). Nonces
 * are fresh, so a recorded conversation proves nothing, and each side's response has its own word,
 * so that a reflected one does not either.
 *
 *   listener to caller   "mltrain elastic2", nonce A [32]
 *   caller to listener   nonce B [32], HMAC(secret, "caller" A B) [32]
 *   listener to caller   HMAC(secret, "listener" A B) [32]
 *
 * A big-endian machine's greeting is "mltrain elasticB": numbers in the bodies of frames have the
 * machine's order, so ranks must have the same one (frame.h), and the caller sees at once that it
 * has not.
 */
#ifndef MLT_DIST_SECRET_H
#define MLT_DIST_SECRET_H

#include "base/base.h"

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

#endif
