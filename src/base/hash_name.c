#include "base/hash.h"

#include <sha256.h>
#include <string.h>

void hash_short(const void *buf, size_t len, char hex[HASH_HEX_SIZE])
{
	SHA256Data(buf, len, hex);
}

void hash_name(const char *s, char hex[HASH_HEX_SIZE])
{
	hash_short(s, strlen(s), hex);
}
