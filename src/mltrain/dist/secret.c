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

#include "dist/frame.h"

#include <assert.h>
#include <endian.h>
#include <sys/random.h>

#define BLOCK    64 /* bytes of SHA-256's block */
#define GREETING 16

static const char greetings[2][GREETING + 1] = { "mltrain elastic2", "mltrain elasticB" };
static const int is_big = __BYTE_ORDER == __BIG_ENDIAN;

static int from_hex(const char *hex, uint8_t bytes[SECRET_SIZE])
{
	for (size_t i = 0; i < SECRET_SIZE; i++) {
		unsigned byte;
		char pair[3] = { hex[2 * i], hex[2 * i] ? hex[2 * i + 1] : '\0' };

		if (strspn(pair, "0123456789abcdef") != 2 || sscanf(pair, "%2x", &byte) != 1)
			return -EPROTO;
		bytes[i] = (uint8_t)byte;
	}
	return hex[2 * SECRET_SIZE] ? -EPROTO : 0;
}

int secret_make(struct secret *ret, struct mlr_error *err)
{
	if (getrandom(ret->bytes, sizeof(ret->bytes), 0) != sizeof(ret->bytes))
		return mlr_fail_errno(err, "make a secret");
	return 0;
}

void secret_hex(const struct secret *s, char hex[SECRET_HEX_SIZE])
{
	for (size_t i = 0; i < SECRET_SIZE; i++)
		snprintf(hex + 2 * i, 3, "%02x", s->bytes[i]);
}

int secret_parse(const char *hex, struct secret *ret, struct mlr_error *err)
{
	struct secret s;

	if (from_hex(hex, s.bytes) < 0)
		return mlr_fail(
			err, EPROTO, "the secret is not %d hexadecimal digits", 2 * SECRET_SIZE);
	*ret = s;
	return 0;
}

int secret_of_text(const char *text, struct secret *ret, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];

	if (strlen(text) < SECRET_TEXT_MIN)
		return mlr_fail(
			err, EINVAL, "the secret has fewer than %d characters", SECRET_TEXT_MIN);
	hash_name(text, hex);
	return secret_parse(hex, ret, err);
}

void secret_hmac(const struct secret *s, const struct iovec *parts, size_t n, uint8_t mac[32])
{
	uint8_t inner[BLOCK], outer[BLOCK], digest[SECRET_SIZE];
	struct iovec in[9], out[2] = { { outer, BLOCK }, { digest, sizeof(digest) } };
	char hex[HASH_HEX_SIZE];

	assert(n < ARRAY_LEN(in));
	memset(inner, 0x36, sizeof(inner));
	memset(outer, 0x5c, sizeof(outer));
	for (size_t i = 0; i < SECRET_SIZE; i++) {
		inner[i] ^= s->bytes[i];
		outer[i] ^= s->bytes[i];
	}
	in[0] = (struct iovec){ inner, BLOCK };
	for (size_t i = 0; i < n; i++)
		in[i + 1] = parts[i];
	hash_parts(in, n + 1, hex);
	from_hex(hex, digest);
	hash_parts(out, 2, hex);
	from_hex(hex, mac);
}

static void prove(const struct secret *s, const char *who, const uint8_t *challenge,
	const uint8_t *nonce, uint8_t mac[SECRET_SIZE])
{
	const struct iovec parts[] = { { (void *)who, strlen(who) },
		{ (void *)(challenge + 16), SECRET_SIZE }, { (void *)nonce, SECRET_SIZE } };

	secret_hmac(s, parts, ARRAY_LEN(parts), mac);
}

/* Compare in the same time wherever they differ. */
static int is_equal(const uint8_t *a, const uint8_t *b)
{
	uint8_t differs = 0;

	for (size_t i = 0; i < SECRET_SIZE; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

int secret_challenge(uint8_t challenge[SECRET_CHALLENGE])
{
	memcpy(challenge, greetings[is_big], GREETING);
	return getrandom(challenge + 16, SECRET_SIZE, 0) == SECRET_SIZE ? 0 : -EIO;
}

int secret_check(const struct secret *s, const uint8_t challenge[SECRET_CHALLENGE],
	const uint8_t answer[SECRET_ANSWER], uint8_t proof[SECRET_SIZE])
{
	uint8_t mac[SECRET_SIZE];

	prove(s, "caller", challenge, answer, mac);
	if (!is_equal(mac, answer + SECRET_SIZE))
		return 0;
	prove(s, "listener", challenge, answer, proof);
	return 1;
}

int secret_call(int fd, const struct secret *s, int timeout_ms, struct mlr_error *err)
{
	uint8_t challenge[SECRET_CHALLENGE], answer[SECRET_ANSWER], proof[SECRET_SIZE];
	uint8_t expected[SECRET_SIZE];
	int r;

	TRY(frame_recv_bytes(fd, challenge, sizeof(challenge), timeout_ms, err));
	if (memcmp(challenge, greetings[!is_big], GREETING) == 0)
		return mlr_fail(err, EPROTO,
			"the run is on %s-endian machines, and this one is %s-endian: ranks need "
			"the same byte order",
			is_big ? "little" : "big", is_big ? "big" : "little");
	if (memcmp(challenge, greetings[is_big], GREETING) != 0)
		return mlr_fail(err, EACCES, "no elastic run of mltrain listens there");
	if (getrandom(answer, SECRET_SIZE, 0) != SECRET_SIZE)
		return mlr_fail_errno(err, "random bytes");
	prove(s, "caller", challenge, answer, answer + SECRET_SIZE);
	r = frame_send_bytes(fd, answer, sizeof(answer), timeout_ms, err);
	if (r == 0)
		r = frame_recv_bytes(fd, proof, sizeof(proof), timeout_ms, err);
	if (r == -ECONNRESET)
		return mlr_fail(err, EACCES, "the run there has another secret");
	if (r < 0)
		return r;
	prove(s, "listener", challenge, answer, expected);
	return is_equal(proof, expected)
		? 0
		: mlr_fail(err, EACCES, "the process that listens there does not know the secret");
}
