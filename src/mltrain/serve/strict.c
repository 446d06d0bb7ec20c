/* Checks of a request's head that libmicrohttpd leaves out: where two readers of HTTP could
 * disagree, a request is refused (RFC 9112, sections 3.2, 6.1 and 6.3). */
#include "serve/server.h"

#include <microhttpd.h>

#define PORT_MAX 65535

/* Of the names of headers, besides letters and digits (RFC 9110, section 5.6.2). */
#define TOKEN_SIGNS "!#$%&'*+-.^_`|~"

struct head {
	int is_broken; /* a name that is no token, or a value with control characters */
	int hosts, lengths, codings; /* how many of each there are */
	const char *host, *coding, *content_coding;
};

static int is_token(const char *s)
{
	const char *begin = s;

	while ((isascii(*s) && isalnum(*s)) || (*s && strchr(TOKEN_SIGNS, *s)))
		s++;
	return s > begin && !*s;
}

static int has_control(const char *s)
{
	while (*s && (*s == '\t' || ((unsigned char)*s >= ' ' && *s != 0x7f)))
		s++;
	return *s != 0;
}

static enum MHD_Result look(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct head *h = ctx;

	value = value ? value : "";
	h->is_broken |= !is_token(key) || has_control(value);
	if (strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0) {
		h->hosts++;
		h->host = value;
	} else if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
		h->lengths++;
	} else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
		h->codings++;
		h->coding = value;
	} else if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_ENCODING) == 0 &&
		strcasecmp(value, "identity") != 0) {
		h->content_coding = value;
	}
	return MHD_YES;
}

/* HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; empty for a target without a host. */
static int is_host(const char *s)
{
	const char *end = *s == '[' ? strchr(s, ']') : s + strcspn(s, ":");
	long port;
	char *rest;

	if (!end || s[strcspn(s, "/?#@ \t,")])
		return 0;
	end += *end == ']';
	if (!*end)
		return 1;
	port = strtol(end + 1, &rest, 10);
	return *end == ':' && !*rest && end[1] != '+' && end[1] != '-' && port <= PORT_MAX;
}

const char *serve_strict_path(const char *target)
{
	const char *path;

	if (strncasecmp(target, "http://", 7) != 0)
		return target;
	path = strchr(target + 7, '/');
	return path ? path : "/";
}

int serve_strict_headers(struct MHD_Connection *mhd, const char *version, struct mlr_error *err)
{
	struct head h = { 0 };

	MHD_get_connection_values(mhd, MHD_HEADER_KIND, look, &h);
	if (h.is_broken)
		return mlr_fail(err, EPROTO, "a header is not NAME: VALUE");
	if (h.hosts > 1 || (!h.hosts && strcmp(version, MHD_HTTP_VERSION_1_1) == 0))
		return mlr_fail(err, EPROTO, "a request has one Host, not %d", h.hosts);
	if (h.host && !is_host(h.host))
		return mlr_fail(err, EPROTO, "Host is not HOST or HOST:PORT");
	if (h.lengths + h.codings > 1)
		return mlr_fail(
			err, EPROTO, "a request has one Content-Length or one Transfer-Encoding");
	if (h.coding && strcasecmp(h.coding, "chunked") != 0)
		return mlr_fail(err, ENOTSUP, "the only Transfer-Encoding is chunked");
	if (h.content_coding)
		return mlr_fail(err, EMEDIUMTYPE,
			"the body is compressed: send it as it is, without Content-Encoding");
	return 0;
}
