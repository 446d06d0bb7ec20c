#include "unit.h"
#include "registry/authfile.h"
#include "registry/header.h"
#include "registry/token.h"
#include "registry/url.h"

#include <time.h>

static struct authfile *parse(const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct authfile *f = NULL;

	if (authfile_parse(text, strlen(text), &f, &err) != 0)
		fail_msg("%s", err.text);
	return f;
}

/* "dTox" is u:1, "djoy" v:2, "dzoz" w:3. */
static void the_longest_namespace_wins(void **state)
{
	static const struct {
		const char *registry, *repository, *user;
	} cases[] = {
		{ "quay.io", "org/repo", "w" },
		{ "quay.io", "org/repo/sub", "w" },
		{ "quay.io", "org/other", "v" },
		{ "quay.io", "organ/repo", "u" },
		{ "quay.io", "", "u" },
		{ "quay.io:443", "org", NULL },
		{ "docker.io", "library/debian", "v" },
		{ "ghcr.io", "x", "w" },
		{ "gcr.io", "x", NULL },
	};
	auto_call(authfile_cleanup) struct authfile *f = parse(
		"{\"auths\":{\"quay.io\":{\"auth\":\"dTox\"},\"quay.io/org\":{\"auth\":\"djoy\"},"
		"\"quay.io/org/repo\":{\"auth\":\"dzoz\"},"
		"\"https://index.docker.io/v1/\":{\"auth\":\"djoy\"},"
		"\"http://ghcr.io/v2/\":{\"auth\":\"dzoz\"},\"gcr.io\":{}}}");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(credential_done) struct credential c = { 0 };
		int r = authfile_find(f, cases[i].registry, cases[i].repository, &c, NULL);

		assert_int_equal(r, cases[i].user != NULL);
		if (cases[i].user)
			assert_string_equal(c.user, cases[i].user);
	}
}

static void passwords_may_hold_what_they_like(void **state)
{
	static const char *const passwords[] = { "", "a", ":", "a:b:c", "ü\"\\ \t", "1234567890" };

	for (size_t i = 0; i < ARRAY_LEN(passwords); i++) {
		auto_call(authfile_cleanup) struct authfile *f = parse(""), *again = NULL;
		auto_call(credential_done) struct credential found = { 0 };
		const struct credential c = { .user = (char *)"me",
			.password = (char *)passwords[i] };
		char *text;

		authfile_set(f, "quay.io/a", &c);
		text = authfile_text(f);
		assert_int_equal(authfile_parse(text, strlen(text), &again, NULL), 0);
		credential_free_secret(text);
		assert_int_equal(authfile_find(again, "quay.io", "a/b", &found, NULL), 1);
		assert_string_equal(found.user, "me");
		assert_string_equal(found.password, passwords[i]);
	}
}

static void an_entry_goes_however_it_is_spelt(void **state)
{
	auto_call(authfile_cleanup) struct authfile *f = parse(
		"{\"auths\":{\"https://index.docker.io/v1/\":{},\"docker.io\":{},\"docker.io/x\":{}}}");
	char *text;

	assert_int_equal(authfile_unset(f, "docker.io"), 2);
	assert_int_equal(authfile_unset(f, "docker.io"), 0);
	text = authfile_text(f);
	assert_null(strstr(text, "v1"));
	assert_non_null(strstr(text, "\"docker.io/x\""));
	free(text);
}

static void helpers_are_named_for_one_registry_or_for_all(void **state)
{
	auto_call(authfile_cleanup) struct authfile *f = parse(
		"{\"credHelpers\":{\"quay.io\":\"one\",\"https://index.docker.io/v1/\":\"hub\"},"
		"\"credsStore\":\"all\"}");
	auto_call(authfile_cleanup) struct authfile *none = parse("{}");
	int is_default;

	assert_string_equal(authfile_helper(f, "quay.io", &is_default), "one");
	assert_false(is_default);
	assert_string_equal(authfile_helper(f, "docker.io", &is_default), "hub");
	assert_string_equal(authfile_helper(f, "ghcr.io", &is_default), "all");
	assert_true(is_default);
	assert_null(authfile_helper(none, "ghcr.io", &is_default));
}

static void malformed_entries_are_refused(void **state)
{
	static const char *const cases[] = { "{\"auths\":{\"a\":7}}",
		"{\"auths\":{\"a\":{\"auth\":7}}}", "{\"auths\":{\"a\":{\"auth\":\"dTo\"}}}",
		"{\"auths\":{\"a\":{\"auth\":\"####\"}}}",
		"{\"auths\":{\"a\":{\"auth\":\"====\"}}}",
		"{\"auths\":{\"a\":{\"auth\":\"dXV1\"}}}",
		"{\"auths\":{\"a\":{\"auth\":\"Ojox\"}}}", "{\"auths\":7}" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(authfile_cleanup) struct authfile *f = parse(cases[i]);
		auto_call(credential_done) struct credential c = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;

		if (authfile_find(f, "a", "b", &c, &err) != -EPROTO)
			fail_msg("'%s' was taken", cases[i]);
	}
}

static int64_t life(const char *text)
{
	auto_call(token_done) struct token t = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (token_parse(text, strlen(text), &t, &err) != 0)
		fail_msg("%s", err.text);
	assert_string_equal(t.text, "t");
	return t.life_s;
}

static void a_token_lives_as_long_as_its_server_says(void **state)
{
	time_t then = time(NULL) - 100;
	char text[128], when[32];
	struct tm tm;

	assert_int_equal(life("{\"token\":\"t\"}"), 60);
	assert_int_equal(life("{\"access_token\":\"t\",\"expires_in\":300}"), 300);
	assert_int_equal(life("{\"token\":\"\",\"access_token\":\"t\",\"expires_in\":1e9}"), 86400);
	assert_int_equal(life("{\"token\":\"t\",\"expires_in\":-1}"), 60);
	gmtime_r(&then, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text),
		"{\"token\":\"t\",\"expires_in\":300,\"issued_at\":\"%s.25Z\"}", when);
	assert_in_range(life(text), 195, 200);
	/* Two clocks that differ, in both directions. */
	assert_int_equal(
		life("{\"token\":\"t\",\"expires_in\":300,\"issued_at\":\"2001-01-01T00:00:00Z\"}"),
		300);
	assert_int_equal(
		life("{\"token\":\"t\",\"expires_in\":300,\"issued_at\":\"2091-01-01T00:00:00Z\"}"),
		300);
	assert_int_equal(
		life("{\"token\":\"t\",\"expires_in\":300,\"issued_at\":\"yesterday\"}"), 300);
}

static void a_token_that_would_end_its_header_is_refused(void **state)
{
	static const char *const cases[] = { "{\"token\":\"a b\"}", "{\"token\":\"a\\r\\nX: y\"}",
		"{\"token\":\"\"}", "{}", "[]", "{\"token\":7}" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct token t = { 0 };

		if (token_parse(cases[i], strlen(cases[i]), &t, NULL) != -EPROTO)
			fail_msg("'%s' was taken", cases[i]);
	}
}

static void the_next_page_is_found_and_only_its_query_taken(void **state)
{
	static const struct {
		const char *header, *query;
	} cases[] = {
		{ "</v2/a/tags/list?last=x&n=10>; rel=\"next\"", "last=x&n=10" },
		{ "<https://evil.example/v2/a/tags/list?last=x>; rel=\"next\"", "last=x" },
		{ "</a?b>; rel=\"prev\", </c?d>; title=\"a, b\"; rel=next", "d" },
		{ "</a?b>; rel=\"prev\"", NULL },
		{ "</a>; rel=\"next\"", NULL },
		{ "</a?b c>; rel=\"next\"", NULL },
		{ "</a?b\r\nX: y>; rel=\"next\"", NULL },
		{ "</a?b", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *query = header_next_query(cases[i].header);

		if (!cases[i].query)
			assert_null(query);
		else
			assert_string_equal(query ? query : "", cases[i].query);
	}
}

static void a_forms_fields_are_encoded(void **state)
{
	char *form = NULL;

	url_add_field(&form, "grant_type", "refresh_token");
	url_add_field(&form, "refresh_token", "a&b=c d%");
	assert_string_equal(form, "grant_type=refresh_token&refresh_token=a%26b%3Dc%20d%25");
	free(form);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_namespace_wins),
		cmocka_unit_test(passwords_may_hold_what_they_like),
		cmocka_unit_test(an_entry_goes_however_it_is_spelt),
		cmocka_unit_test(helpers_are_named_for_one_registry_or_for_all),
		cmocka_unit_test(malformed_entries_are_refused),
		cmocka_unit_test(a_token_lives_as_long_as_its_server_says),
		cmocka_unit_test(a_token_that_would_end_its_header_is_refused),
		cmocka_unit_test(the_next_page_is_found_and_only_its_query_taken),
		cmocka_unit_test(a_forms_fields_are_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
