#include "registry/url.h"

#include "oci/ref.h"

#include <curl/curl.h>
#include <libpsl.h>

#define TOLD_MAX 200 /* characters of a URL in a message */

struct parts {
	char *scheme, *host, *port; /* port defaults to the scheme's */
};

static void parts_done(struct parts *p)
{
	curl_free(p->scheme);
	curl_free(p->host);
	curl_free(p->port);
}

static void url_free(CURLU **u)
{
	curl_url_cleanup(*u);
}

static int split(const char *url, struct parts *p)
{
	auto_call(url_free) CURLU *u = curl_url();

	return u && curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_SCHEME, &p->scheme, 0) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
}

int url_same_origin(const char *a, const char *b)
{
	auto_call(parts_done) struct parts x = { 0 }, y = { 0 };

	return split(a, &x) && split(b, &y) && strcasecmp(x.scheme, y.scheme) == 0 &&
		strcasecmp(x.host, y.host) == 0 && strcmp(x.port, y.port) == 0;
}

int url_is_loopback(const char *url)
{
	auto_call(parts_done) struct parts p = { 0 };
	struct oci_ref host = { 0 };

	if (!split(url, &p))
		return 0;
	host.registry = p.host;
	return oci_ref_is_loopback(&host);
}

char *url_authority(const char *url)
{
	auto_call(parts_done) struct parts p = { 0 };

	if (!split(url, &p))
		return xstrdup(url);
	if (strcmp(p.port, strcmp(p.scheme, "https") == 0 ? "443" : "80") == 0)
		return xstrdup(p.host);
	return xasprintf("%s:%s", p.host, p.port);
}

static int check(
	const char *url, const char *base, int same_origin_is_enough, struct mlr_error *err)
{
	auto_call(parts_done) struct parts p = { 0 };
	/* The query may be a signature. */
	size_t n = strcspn(url, "?");
	int told = n < TOLD_MAX ? (int)n : TOLD_MAX;

	if (!split(url, &p))
		return mlr_fail(
			err, EPROTO, "'%.*s' is not a URL that could be followed", told, url);
	if (strcmp(p.scheme, "https") == 0)
		return 0;
	if (strcmp(p.scheme, "http") != 0)
		return mlr_fail(err, EACCES, "'%.*s' is neither https nor http", told, url);
	if (same_origin_is_enough && url_same_origin(url, base))
		return 0;
	if (url_is_loopback(base) && url_is_loopback(url))
		return 0;
	return mlr_fail(err, EACCES, "'%.*s' is not https", told, url);
}

int url_check_redirect(const char *url, const char *base, struct mlr_error *err)
{
	int r = check(url, base, 1, err);

	if (r < 0)
		mlr_wrap(err, "refused to follow the registry's redirect");
	return r;
}

int url_check_realm(const char *url, const char *base, struct mlr_error *err)
{
	int r = check(url, base, 0, err);

	if (r < 0) {
		mlr_wrap(err, "refused the registry's token server");
		mlr_hint(err,
			"passwords and tokens go over https alone; its administrator must "
			"name a token server that is");
	}
	return r;
}

char *url_host(const char *url)
{
	auto_call(parts_done) struct parts p = { 0 };

	return split(url, &p) ? xstrdup(p.host) : xstrdup(url);
}

/* An address has no domain; a single label is its own. */
static const char *registrable(const char *host)
{
	const psl_ctx_t *list = psl_builtin();

	if (!list || *host == '[' || host[strspn(host, "0123456789.")] == '\0')
		return NULL;
	return psl_registrable_domain(list, host);
}

int url_same_site(const char *a, const char *b)
{
	auto_call(parts_done) struct parts x = { 0 }, y = { 0 };
	const char *one, *other;

	if (!split(a, &x) || !split(b, &y))
		return 0;
	if (strcasecmp(x.host, y.host) == 0)
		return 1;
	/* The list is in lower case. */
	for (char *s = x.host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	for (char *s = y.host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	one = registrable(x.host);
	other = registrable(y.host);
	return one && other && strcmp(one, other) == 0;
}

void url_add_field(char **form, const char *name, const char *value)
{
	char *encoded = curl_easy_escape(NULL, value, 0), *longer;

	if (!encoded)
		mlr_oom();
	longer = xasprintf("%s%s%s=%s", *form ? *form : "", *form ? "&" : "", name, encoded);
	explicit_bzero(encoded, strlen(encoded));
	curl_free(encoded);
	if (*form)
		explicit_bzero(*form, strlen(*form));
	set_ptr(form, longer);
}

/* The URL once this part of it is set, or NULL. */
static char *with_part(const char *url, CURLUPart part, const char *text, unsigned flags)
{
	auto_call(url_free) CURLU *u = curl_url();
	char *out = NULL, *ret;

	if (!u || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
		curl_url_set(u, part, text, flags) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_URL, &out, 0) != CURLUE_OK)
		return NULL;
	ret = xstrdup(out);
	curl_free(out);
	return ret;
}

char *url_join(const char *base, const char *reference)
{
	return with_part(base, CURLUPART_URL, reference, 0);
}

char *url_add_query(const char *url, const char *name, const char *value)
{
	auto_free char *pair = xasprintf("%s=%s", name, value);

	return with_part(url, CURLUPART_QUERY, pair, CURLU_APPENDQUERY | CURLU_URLENCODE);
}
