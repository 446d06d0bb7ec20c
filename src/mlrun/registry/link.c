#include "registry/link.h"

#include "base/memory.h"

#include <string.h>
#include <strings.h>

/* The end of the parameters after '>': a comma outside quotes, or the end. */
static const char *end_of_params(const char *s)
{
	int quoted = 0;

	for (; *s && (quoted || *s != ','); s++) {
		if (*s == '"')
			quoted = !quoted;
		if (*s == '\\' && quoted && s[1])
			s++;
	}
	return s;
}

static int is_next(const char *s, const char *end)
{
	for (; s < end; s++)
		if (strncasecmp(s, "rel=\"next\"", 10) == 0 || strncasecmp(s, "rel=next", 8) == 0)
			return 1;
	return 0;
}

char *link_next_query(const char *value)
{
	const char *s = value;

	while ((s = strchr(s, '<'))) {
		const char *close = strchr(s, '>'), *end, *query;

		if (!close)
			return NULL;
		end = end_of_params(close);
		query = memchr(s, '?', (size_t)(close - s));
		if (is_next(close, end)) {
			if (!query)
				return NULL;
			for (const char *p = query; p < close; p++)
				if ((unsigned char)*p <= 0x20 || *p == '#' || *p == 0x7f)
					return NULL;
			return xstrndup(query + 1, (size_t)(close - query - 1));
		}
		s = end;
	}
	return NULL;
}
