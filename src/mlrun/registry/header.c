#include "registry/header.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LIST_MAX 8192 /* bytes of one header's lines in total */

/* The value of a header line if it has this name, to free(). */
static char *value_of(const char *line, size_t len, const char *name)
{
	size_t n = strlen(name);

	if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
		return NULL;
	line += n + 1;
	len -= n + 1;
	while (len > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		len--;
	}
	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
		len--;
	return xstrndup(line, len);
}

static void keep(char **slot, char *value)
{
	free(*slot);
	*slot = value;
}

/* Several lines of one header are one list (RFC 9110, 5.3). */
static void append(char **slot, char *value)
{
	if (*slot && strlen(*slot) < LIST_MAX) {
		char *both = xasprintf("%s, %s", *slot, value);

		free(value);
		value = both;
	}
	keep(slot, value);
}

void header_forget(struct http_exchange *x)
{
	free(x->content_type);
	free(x->authenticate);
	free(x->digest);
	free(x->link);
	free(x->quota);
	free(x->quota_left);
	free(x->problem);
	x->content_type = x->authenticate = x->digest = x->link = x->problem = NULL;
	x->quota = x->quota_left = NULL;
	x->status = 0;
	x->length = x->retry_after = -1;
	x->first = 0;
}

int header_take(struct http_exchange *x, const char *line, size_t len)
{
	const struct {
		const char *name;
		char **slot;
		void (*put)(char **slot, char *value);
	} kept[] = {
		{ "Content-Type", &x->content_type, keep },
		{ "WWW-Authenticate", &x->authenticate, append },
		{ "Docker-Content-Digest", &x->digest, keep },
		{ "Link", &x->link, append },
		{ "RateLimit-Limit", &x->quota, keep },
		{ "RateLimit-Remaining", &x->quota_left, keep },
	};
	auto_free char *range = NULL;
	char *v;

	if (len > 5 && strncmp(line, "HTTP/", 5) == 0) {
		header_forget(x);
		sscanf(line, "HTTP/%*s %d", &x->status);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		v = value_of(line, len, kept[i].name);
		if (v) {
			kept[i].put(kept[i].slot, v);
			return 0;
		}
	}
	range = value_of(line, len, "Content-Range");
	if (range) {
		unsigned long long first;

		/* Anything else leaves UINT64_MAX, which no request uses. */
		x->first = sscanf(range, "bytes %llu-", &first) == 1 ? first : UINT64_MAX;
	}
	return 0;
}
