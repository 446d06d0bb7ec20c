/* Checks of a request's head that libmicrohttpd leaves out: where two readers of HTTP could
 * disagree, a request is refused (RFC 9112, sections 3.2, 6.1 and 6.3), and where a browser was led
 * here by somebody else's page. */
#include "http/inside.h"

#include <arpa/inet.h>

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
int http_strict_is_host(const char *s)
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

const char *http_strict_path(const char *target)
{
	const char *path;

	if (strncasecmp(target, "http://", 7) != 0)
		return target;
	path = strchr(target + 7, '/');
	return path ? path : "/";
}

int http_strict_headers(struct MHD_Connection *mhd, const char *version, struct mlr_error *err)
{
	struct head h = { 0 };

	MHD_get_connection_values(mhd, MHD_HEADER_KIND, look, &h);
	if (h.is_broken)
		return mlr_fail(err, EPROTO, "a header is not NAME: VALUE");
	if (h.hosts > 1 || (!h.hosts && strcmp(version, MHD_HTTP_VERSION_1_1) == 0))
		return mlr_fail(err, EPROTO, "a request has one Host, not %d", h.hosts);
	if (h.host && !http_strict_is_host(h.host))
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

/* --- whose request it is ---------------------------------------------------------------------- */

/* Is a Host of this name, and of its port if the name has one? */
static int is_named(const char *host, const char *name)
{
	size_t n = strlen(name);

	return strncasecmp(host, name, n) == 0 && (!host[n] || host[n] == ':');
}

/* A name that leads to nothing but the machine that asks, whoever answers for names. */
static int is_loopback(const char *host)
{
	char text[INET_ADDRSTRLEN];
	size_t n = strcspn(host, ":");
	struct in_addr four;

	if (is_named(host, "localhost") || is_named(host, "[::1]"))
		return 1;
	if (n >= sizeof(text))
		return 0;
	memcpy(text, host, n);
	text[n] = '\0';
	return inet_pton(AF_INET, text, &four) == 1 && ntohl(four.s_addr) >> 24 == 127;
}

static int is_ours(const char *host, const char *const *hosts)
{
	while (hosts && *hosts && !is_named(host, *hosts))
		hosts++;
	return (hosts && *hosts) || is_loopback(host);
}

/* Is a page of this origin, SCHEME://HOST[:PORT], the server's own? */
static int is_own_page(const char *origin, const char *host, const char *const *hosts)
{
	const char *at = strstr(origin, "://");

	if (!at)
		return 0;
	at += 3;
	while (hosts && *hosts && strcasecmp(at, *hosts) != 0)
		hosts++;
	return (hosts && *hosts) || (host && strcasecmp(at, host) == 0);
}

int http_strict_site(const struct http_ask *x, struct mlr_error *err)
{
	const char *const *hosts = x->door->server->wish.hosts;
	const char *host = http_header(&x->q, MHD_HTTP_HEADER_HOST), *method = x->q.method;
	const char *origin, *site;
	int is_checked =
		x->q.reach == HTTP_LOOPBACK || (x->q.reach == HTTP_NETWORK && hosts && *hosts);

	if (host && is_checked && !is_ours(host, hosts))
		return mlr_fail(err, EADDRNOTAVAIL, "the server is not called '%s'", host);
	if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
		return 0;
	origin = http_header(&x->q, MHD_HTTP_HEADER_ORIGIN);
	if (origin && !is_own_page(origin, host, hosts))
		return mlr_fail(err, EXDEV, "the page comes from another site, '%s'", origin);
	site = http_header(&x->q, "Sec-Fetch-Site");
	if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return mlr_fail(err, EXDEV, "the page comes from another site");
	return 0;
}
