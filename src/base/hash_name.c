#include "base/hash.h"

#include <sha256.h>
#include <string.h>

void hash_name(const char *s, char hex[HASH_HEX_SIZE])
{
	SHA256Data((const uint8_t *)s, strlen(s), hex);
}
