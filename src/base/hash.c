
#include "base/base.h"

#include <openssl/evp.h>

#define HASH_STEP (256u << 10) /* bytes read at once */

struct hash {
	EVP_MD_CTX *ctx;
};

/* libcrypto's digest calls fail only without memory or without a provider. */
static void must(int ok)
{
	if (!ok) {
		mlr_oom();
		abort();
	}
}

struct hash *hash_new(void)
{
	struct hash *h = xmalloc(sizeof(*h));

	h->ctx = EVP_MD_CTX_new();
	must(h->ctx && EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL));
	return h;
}

void hash_free(struct hash *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->ctx);
	free(h);
}

void hash_update(struct hash *h, const void *buf, size_t len)
{
	must(EVP_DigestUpdate(h->ctx, buf, len));
}

void hash_final(struct hash *h, char hex[HASH_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	must(EVP_DigestFinal_ex(h->ctx, md, &n) && n == 32);
	for (unsigned i = 0; i < n; i++) {
		hex[2 * i] = digits[md[i] >> 4];
		hex[2 * i + 1] = digits[md[i] & 15];
	}
	hex[64] = '\0';
}

void hash_buffer(const void *buf, size_t len, char hex[HASH_HEX_SIZE])
{
	auto_hash struct hash *h = hash_new();

	hash_update(h, buf, len);
	hash_final(h, hex);
}

void hash_digest(const void *buf, size_t len, char digest[7 + HASH_HEX_SIZE])
{
	memcpy(digest, "sha256:", 7);
	hash_buffer(buf, len, digest + 7);
}

int hash_fd(int fd, int (*stop)(void *ctx), void *ctx, char hex[HASH_HEX_SIZE], uint64_t *bytes)
{
	auto_hash struct hash *h = hash_new();
	auto_free char *buf = xmalloc(HASH_STEP);
	uint64_t at = 0;
	ssize_t n;

	while ((n = TEMP_FAILURE_RETRY(pread(fd, buf, HASH_STEP, (off_t)at))) != 0) {
		if (n < 0)
			return -errno;
		hash_update(h, buf, (size_t)n);
		at += (uint64_t)n;
		if (stop && stop(ctx))
			return -ECANCELED;
	}
	hash_final(h, hex);
	if (bytes)
		*bytes = at;
	return 0;
}
