#include "registry/header.h"

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
	set_ptr(slot, value);
}

/* Several lines of one header are one list (RFC 9110, 5.3). */
static void append(char **slot, char *value)
{
	if (*slot && strlen(*slot) < LIST_MAX) {
		char *both = xasprintf("%s, %s", *slot, value);

		set_ptr(&value, both);
	}
	keep(slot, value);
}

void header_forget(struct http_exchange *x)
{
	free(x->content_type);
	free(x->authenticate);
	free(x->digest);
	free(x->link);
	free(x->location);
	free(x->modified);
	free(x->range);
	free(x->quota);
	free(x->quota_left);
	free(x->problem);
	x->content_type = x->authenticate = x->digest = x->link = x->problem = NULL;
	x->location = x->range = x->modified = NULL;
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
		{ "Location", &x->location, keep },
		{ "Last-Modified", &x->modified, keep },
		{ "Range", &x->range, keep },
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

char *header_next_query(const char *value)
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
