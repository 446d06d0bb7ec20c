/* auth.json and Docker's config.json; what a token server answers; the Link header. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "registry/authfile.h"
#include "registry/header.h"
#include "registry/token.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is found is whole, and what is written is read again. */
static void check_file(struct authfile *f)
{
	static const struct credential me = { .user = (char *)"me", .password = (char *)"p:w" };
	auto_call(credential_done) struct credential c = { 0 }, mine = { 0 };
	auto_call(authfile_cleanup) struct authfile *again = NULL;
	int is_default;
	char *text;

	if (authfile_find(f, "quay.io", "org/repo", &c, NULL) == 1 && (!c.user || !c.password))
		abort();
	authfile_helper(f, "docker.io", &is_default);
	authfile_set(f, "quay.io/org/repo", &me);
	text = authfile_text(f);
	if (strlen(text) < AUTHFILE_MAX &&
		(authfile_parse(text, strlen(text), &again, NULL) < 0 ||
			authfile_find(again, "quay.io", "org/repo", &mine, NULL) != 1 ||
			strcmp(mine.password, me.password) != 0))
		abort();
	free(text);
	if (authfile_unset(f, "quay.io/org/repo") < 1)
		abort();
}

static void check_token(const char *text, size_t len)
{
	auto_call(token_done) struct token t = { 0 };

	if (token_parse(text, len, &t, NULL) < 0)
		return;
	if (t.life_s < 1 || !*t.text || strpbrk(t.text, " \r\n\t"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(authfile_cleanup) struct authfile *f = NULL;
	auto_free char *text = xstrndup((const char *)data, size);
	auto_free char *query = header_next_query(text);

	if (query && strpbrk(query, " \r\n\t#"))
		abort();
	if (authfile_parse((const char *)data, size, &f, NULL) == 0)
		check_file(f);
	check_token((const char *)data, size);
	return 0;
}
