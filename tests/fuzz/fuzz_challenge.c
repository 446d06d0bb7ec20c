/* WWW-Authenticate headers, and the URLs that come in them and in redirects. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "registry/auth.h"
#include "registry/url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a registry on the internet may send us to is https, and a query does not change the host. */
static void check_url(const char *url)
{
	auto_free char *with_query = url_add_query(url, "scope", url),
		       *authority = url_authority(url);

	if (*authority == '\0' && url_same_origin(url, url))
		abort();
	if (url_check_realm(url, "https://registry.example", NULL) == 0 &&
		(!with_query || !url_same_origin(url, with_query)))
		abort();
	if (url_check_redirect(url, "https://registry.example", NULL) == 0 &&
		(strncasecmp(url, "http://", 7) == 0 || strchr(authority, '@')))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	struct challenge c = CHALLENGE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (auth_challenge_parse(text, &c, &err) == 0) {
		if (c.scheme == CHALLENGE_BEARER) {
			if (!c.realm)
				abort();
			check_url(c.realm);
		}
		auth_challenge_done(&c);
	}
	check_url(text);
	return 0;
}
