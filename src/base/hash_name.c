
#include "base/base.h"

#include <sha256.h>

void hash_short(const void *buf, size_t len, char hex[HASH_HEX_SIZE])
{
	SHA256Data(buf, len, hex);
}

void hash_parts(const struct iovec *parts, size_t n, char hex[HASH_HEX_SIZE])
{
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	for (size_t i = 0; i < n; i++)
		if (parts[i].iov_len)
			SHA256Update(&ctx, parts[i].iov_base, parts[i].iov_len);
	SHA256End(&ctx, hex);
}

void hash_name(const char *s, char hex[HASH_HEX_SIZE])
{
	hash_short(s, strlen(s), hex);
}
