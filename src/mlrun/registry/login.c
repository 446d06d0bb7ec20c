#include "registry/registry.h"

#include "base/base.h"
#include "registry/buffer.h"
#include "registry/request.h"

/* Only the status of "/v2/" matters. */
static int ignore(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	return 0;
}

int registry_login(struct registry *r, const char *user, const char *password, int *asked,
	struct mlr_error *err)
{
	struct endpoint *e = r->endpoints[r->n - 1];
	const struct credential c = { .user = (char *)user, .password = (char *)password };
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	struct request q = { .what = "login", .is_root = 1, .no_mirrors = 1, .sink = ignore };
	char *header;
	int res;

	auth_set(e->auth, &c);
	res = request_run(r, &q, &x, err);
	if (res == -EACCES) {
		char *hint = strchr(err->text, '\n');

		if (hint)
			*hint = '\0';
		return mlr_hint(err,
			"a wrong user name or password? Many registries want an access token in "
			"place of the password");
	}
	if (res < 0)
		return res;
	header = auth_header(e->auth, e->bases[e->at]);
	*asked = header != NULL;
	credential_free_secret(header);
	return 0;
}
