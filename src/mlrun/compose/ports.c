#include "compose/ports.h"

#include <string.h>

int compose_port_is_so(const char *text)
{
	const char *colon = strrchr(text, ':'), *host = text, *port = colon ? colon + 1 : text;
	size_t len = colon ? (size_t)(colon - text) : 0, digits = strcspn(port, "/");

	for (size_t i = 0; i < len; i++)
		if (text[i] == ':')
			host = text + i + 1;
	len -= len ? (size_t)(host - text) : 0;
	if (digits == 0 || strspn(port, "0123456789-") != digits)
		return 0;
	if (host > text && strncmp(text, "0.0.0.0:", (size_t)(host - text)) != 0 &&
		strncmp(text, "[::]:", (size_t)(host - text)) != 0)
		return 0;
	return len == 0 || (len == digits && strncmp(host, port, len) == 0);
}
