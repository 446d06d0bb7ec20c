#include "base/hash.h"

#include "base/memory.h"

#include <openssl/evp.h>
#include <stdlib.h>

struct hash {
	EVP_MD_CTX *ctx;
};

/* libcrypto's digest calls fail only for lack of memory or a provider that is missing. */
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
