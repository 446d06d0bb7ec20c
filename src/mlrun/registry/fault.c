#include "registry/fault.h"

#include "registry/url.h"

#include <openssl/x509_vfy.h>

#define TOO_LARGE 100 /* CURLE_TOO_LARGE, since libcurl 8.6 */

static int fail_expired(const char *host, int too_early, struct mlr_error *err)
{
	time_t now = time(NULL);
	char today[16] = "?";
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(today, sizeof(today), "%Y-%m-%d", &tm);
	mlr_fail(err, EPERM,
		too_early ? "the certificate of '%s' is not valid yet"
			  : "the certificate of '%s' has expired",
		host);
	return mlr_hint(err,
		"its administrator must renew it, if this machine's clock is right (it says %s)",
		today);
}

static int fail_unknown_ca(const struct fault *f, const char *host, struct mlr_error *err)
{
	mlr_fail(err, EPERM, "the certificate of '%s' is not trusted: %s", host, f->words);
	if (!f->has_authorities)
		return mlr_hint(err,
			"this machine has no certificates of authorities: install the package "
			"ca-certificates, or name a file of them in SSL_CERT_FILE");
	if (f->certs_hint)
		return mlr_hint(err,
			"put the site's CA certificate into '%s/', or name it in mlrun.conf "
			"(ca = FILE) or SSL_CERT_FILE; --tls-verify=false gives up the check",
			f->certs_hint);
	return mlr_hint(err,
		"name the site's CA certificates in SSL_CERT_FILE, or give up the check "
		"with --tls-verify=false");
}

/* Which certificate check failed (openssl-verification-options(1))? */
static int fail_certificate(const struct fault *f, const char *host, struct mlr_error *err)
{
	long why = X509_V_OK;

	curl_easy_getinfo(f->curl, CURLINFO_SSL_VERIFYRESULT, &why);
	switch (why) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return fail_expired(host, 0, err);
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return fail_expired(host, 1, err);
	case X509_V_OK:
	case X509_V_ERR_UNSPECIFIED: /* libcurl checks the name before it gets the chain */
		mlr_fail(err, EPERM, "the certificate of '%s' is made out to another name: %s",
			host, f->words);
		return mlr_hint(err, "ask for the registry by the name in its certificate");
	default:
		return fail_unknown_ca(f, host, err);
	}
}

/* Did the connection break during the handshake, or did the handshake itself fail? Both have the
 * same codes. */
static int is_broken(const char *words)
{
	return strstr(words, strerror(ECONNRESET)) || strstr(words, "SSL_ERROR_SYSCALL");
}

static int fail_handshake(const struct fault *f, const char *host, struct mlr_error *err)
{
	mlr_fail(err, EPROTO, "TLS with '%s' failed: %s", host, f->words);
	return mlr_hint(err, "a registry that speaks plain HTTP needs --tls-verify=false");
}

/* The address in "Failed to connect to HOST port N …" is a proxy's if it is not the URL's. */
static int is_proxy(const struct fault *f, const char *host, char proxy[256])
{
	const char *at = strstr(f->words, "connect to "), *end;
	size_t n;

	at = at ? at + strlen("connect to ") : "";
	end = strstr(at, " port ");
	n = end ? (size_t)(end - at) : 0;
	if (n == 0 || n >= 200)
		return 0;
	snprintf(proxy, 256, "%.*s:%d", (int)n, at, atoi(end + strlen(" port ")));
	/* URLs put an IPv6 address in '[…]'; libcurl's message does not. */
	host += *host == '[';
	return strncasecmp(host, at, n) != 0;
}

static int fail_connect(
	const struct fault *f, const char *host, struct http_exchange *x, struct mlr_error *err)
{
	char proxy[256];
	long code = 0;

	curl_easy_getinfo(f->curl, CURLINFO_OS_ERRNO, &code);
	if (code <= 0)
		code = ECONNREFUSED;
	/* The connection was accepted, and reset before libcurl noticed. */
	if (code == ECONNRESET && !is_proxy(f, host, proxy)) {
		x->other_protocol = 1;
		return mlr_fail(err, ECONNRESET, "the connection to '%s' broke: %s", host,
			strerror(ECONNRESET));
	}
	x->unreached = 1;
	if (is_proxy(f, host, proxy)) {
		mlr_fail(err, (int)code, "cannot connect to the proxy '%s': %s", proxy,
			strerror((int)code));
		return mlr_hint(err,
			"https_proxy or http_proxy sets the proxy; no_proxy names hosts that "
			"need none");
	}
	mlr_fail(err, (int)code, "cannot connect to '%s': %s", host, strerror((int)code));
	if (code == ENETUNREACH || code == EHOSTUNREACH)
		return mlr_hint(err,
			"this machine has no way there: compute nodes often have none, pull on a "
			"login node; behind a proxy set https_proxy");
	return mlr_hint(err,
		"is a registry running there, and is it the right port? Behind a proxy set "
		"https_proxy");
}

static int fail_name(
	const struct fault *f, const char *host, struct http_exchange *x, struct mlr_error *err)
{
	x->unreached = 1;
	if (f->code == CURLE_COULDNT_RESOLVE_PROXY) {
		mlr_fail(err, EHOSTUNREACH, "cannot find the proxy: %s", f->words);
		return mlr_hint(err, "https_proxy or http_proxy sets the proxy");
	}
	mlr_fail(err, EHOSTUNREACH, "cannot find the host '%s': %s", host, f->words);
	return mlr_hint(err,
		"check the registry's name and this machine's DNS; compute nodes often have no way "
		"out, pull on a login node; behind a proxy set https_proxy");
}

/* libcurl's message would show the whole address, perhaps with a password. */
static int fail_proxy_address(struct http_exchange *x, struct mlr_error *err)
{
	x->unreached = 1;
	x->transient = 0;
	mlr_fail(err, EINVAL, "the proxy's address is malformed");
	return mlr_hint(err,
		"https_proxy or http_proxy sets the proxy: http://USER:PASSWORD@PROXY:PORT, "
		"other characters than letters and digits in a password as %%XX");
}

/* A proxy's status for CONNECT if it was not 200, or 0. */
static long proxy_status(const struct fault *f)
{
	long status = 0;

	curl_easy_getinfo(f->curl, CURLINFO_HTTP_CONNECTCODE, &status);
	return status == 0 || status / 100 == 2 ? 0 : status;
}

static int fail_proxy(long status, const char *host, struct http_exchange *x, struct mlr_error *err)
{
	x->transient = status >= 500;
	mlr_fail(err, ECONNREFUSED, "the proxy will not connect to '%s': HTTP status %ld", host,
		status);
	return mlr_hint(err,
		status == 407 ? "it wants a password: https_proxy=http://USER:PASSWORD@PROXY:PORT"
			      : "ask its administrator for that host, or name it in no_proxy");
}

int fault_fail(const struct fault *f, struct http_exchange *x, struct mlr_error *err)
{
	auto_free char *host = url_authority(f->url);
	struct fault g = *f;
	long status = proxy_status(f);

	if (!*g.words)
		g.words = curl_easy_strerror(f->code);
	x->transient = 1;
	if (status != 0)
		return fail_proxy(status, host, x, err);
	if (strncmp(g.words, "Unsupported proxy", strlen("Unsupported proxy")) == 0)
		return fail_proxy_address(x, err);
	if ((int)f->code == TOO_LARGE) {
		x->transient = 0;
		return mlr_fail(err, EPROTO, "'%s' sends too many headers: %s", host, g.words);
	}
	switch (f->code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return fail_name(&g, host, x, err);
	case CURLE_COULDNT_CONNECT:
		return fail_connect(&g, host, x, err);
	case CURLE_OPERATION_TIMEDOUT:
		x->unreached = 1;
		mlr_fail(err, ETIMEDOUT, "'%s' does not answer: %s", host, g.words);
		return mlr_hint(err,
			"a firewall may be between: compute nodes often have no way out, pull on a "
			"login node; behind a proxy set https_proxy");
	case CURLE_SSL_CONNECT_ERROR:
		x->other_protocol = 1;
		x->transient = is_broken(g.words);
		return fail_handshake(&g, host, err);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
		x->transient = 0;
		return fail_certificate(&g, host, err);
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
		x->transient = 0;
		return mlr_fail(
			err, EINVAL, "a certificate file on this machine is unusable: %s", g.words);
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9: the bytes are not HTTP */
	case CURLE_WEIRD_SERVER_REPLY:
		x->other_protocol = 1;
		x->transient = 0;
		return mlr_fail(err, EPROTO, "'%s' does not speak HTTP: %s", host, g.words);
	case CURLE_SEND_FAIL_REWIND: /* libcurl would have sent all again by itself */
		return mlr_fail(err, ECONNRESET, "the connection to '%s' broke", host);
	default:
		x->other_protocol = x->status == 0;
		return mlr_fail(err, ECONNRESET, "the connection to '%s' broke: %s", host, g.words);
	}
}
