#include "unit.h"
#include "pull/queue.h"
#include "registry/buffer.h"
#include "registry/auth.h"
#include "registry/retry.h"
#include "registry/url.h"

#include <pthread.h>

static void same(const char *got, const char *want)
{
	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
}

static void challenges_are_read_whatever_their_spelling(void **state)
{
	static const struct {
		const char *text;
		enum challenge_scheme scheme;
		const char *realm, *service, *scope;
	} cases[] = {
		{ "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:"
		  "library/x:pull\"",
			CHALLENGE_BEARER, "https://auth.docker.io/token", "registry.docker.io",
			"repository:library/x:pull" },
		{ "bearer  REALM = \"https://a/\" , scope=\"a b,c\"", CHALLENGE_BEARER,
			"https://a/", NULL, "a b,c" },
		{ "Bearer realm=https://a/t?x=y,service=s", CHALLENGE_BEARER, "https://a/t?x=y",
			"s", NULL },
		{ "Bearer realm=\"a\\\"b\\\\c\"", CHALLENGE_BEARER, "a\"b\\c", NULL, NULL },
		{ "Bearer realm=\"first\",realm=\"second\"", CHALLENGE_BEARER, "first", NULL,
			NULL },
		{ "Basic realm=\"x\", Bearer realm=\"y\",error=\"invalid_token\"", CHALLENGE_BEARER,
			"y", NULL, NULL },
		{ "Bearer realm=\"y\", Basic realm=\"x\"", CHALLENGE_BEARER, "y", NULL, NULL },
		{ "Negotiate YWJj==, Bearer realm=\"y\"", CHALLENGE_BEARER, "y", NULL, NULL },
		{ "Negotiate, Basic realm=\"x\"", CHALLENGE_BASIC, "x", NULL, NULL },
		{ "Basic", CHALLENGE_BASIC, NULL, NULL, NULL },
		{ "Bearer", CHALLENGE_OTHER, NULL, NULL, NULL },
		{ "Bearer realm=", CHALLENGE_OTHER, NULL, NULL,
			NULL }, /* a token68, RFC 9110, 11.2 */
		{ "Bearer service=\"s\"", CHALLENGE_OTHER, NULL, NULL, NULL },
		{ "Digest realm=\"x\"", CHALLENGE_OTHER, NULL, NULL, NULL },
		{ "", CHALLENGE_OTHER, NULL, NULL, NULL },
		{ ", ,", CHALLENGE_OTHER, NULL, NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct challenge c = CHALLENGE_INIT;

		if (auth_challenge_parse(cases[i].text, &c, &err) != 0)
			fail_msg("%s", err.text);
		assert_int_equal(c.scheme, cases[i].scheme);
		same(c.realm, cases[i].realm);
		same(c.service, cases[i].service);
		same(c.scope, cases[i].scope);
		auth_challenge_done(&c);
	}
}

static void malformed_challenges_are_refused(void **state)
{
	static const char *const cases[] = { "=", "realm=\"x\"", "Bearer realm=\"open",
		"Bearer realm=\"a\\", "Bearer realm=\"a\"b", "Bearer x=y, realm=", "\"Bearer\"",
		"Bearer realm=\"a\nb\"", "Bearer realm=\"a\" service" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct challenge c = CHALLENGE_INIT;

		if (auth_challenge_parse(cases[i], &c, &err) != -EPROTO)
			fail_msg("'%s' was taken for a challenge", cases[i]);
		assert_non_null(strstr(err.text, "malformed WWW-Authenticate"));
	}
}

struct url_pair {
	const char *to, *from;
	int result;
};

static void redirects_lead_to_https_or_stay_where_they_are(void **state)
{
	static const struct url_pair cases[] = {
		{ "https://cdn.example/x", "https://r.example", 0 },
		{ "http://cdn.example/x", "https://r.example", -EACCES },
		{ "http://r.example/x", "https://r.example", -EACCES },
		{ "http://127.0.0.1/x", "https://r.example", -EACCES },
		{ "http://127.0.0.2:9/x", "http://localhost:5000", 0 },
		{ "http://r.example/x", "http://127.0.0.1:5000", -EACCES },
		{ "http://10.0.0.1:5000/x", "http://10.0.0.1:5000", 0 },
		{ "http://10.0.0.1:80/x", "http://10.0.0.1:5000", -EACCES },
		{ "file:///etc/passwd", "http://127.0.0.1:5000", -EPROTO },
		{ "gopher://127.0.0.1/x", "http://127.0.0.1:5000", -EACCES },
		{ "https://user:secret@cdn.example/x", "https://r.example", -EPROTO },
		{ "", "https://r.example", -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (url_check_redirect(cases[i].to, cases[i].from, NULL) != cases[i].result)
			fail_msg("from '%s' to '%s'", cases[i].from, cases[i].to);
}

static void token_servers_are_https_unless_all_is_on_loopback(void **state)
{
	static const struct url_pair cases[] = {
		{ "https://auth.example/token", "https://r.example", 0 },
		{ "http://127.0.0.1:5001/token", "http://127.0.0.1:5000", 0 },
		{ "http://127.0.0.1:5001/token", "https://r.example", -EACCES },
		{ "http://10.0.0.1/token", "http://10.0.0.1", -EACCES },
		{ "http://auth.example/token", "http://127.0.0.1:5000", -EACCES },
	};
	struct mlr_error err = MLR_ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (url_check_realm(cases[i].to, cases[i].from, &err) != cases[i].result)
			fail_msg("from '%s' to '%s'", cases[i].from, cases[i].to);
	assert_string_equal(err.text,
		"refused the registry's token server: 'http://auth.example/token' is not https\n"
		"hint: passwords and tokens go over https alone; its administrator must name a token "
		"server that is");
}

static void a_site_is_a_host_or_hosts_below_one_registrable_domain(void **state)
{
	assert_true(url_same_site("https://registry-1.docker.io", "https://auth.docker.io/token"));
	assert_true(
		url_same_site("https://Registry.Example.CO.UK:5000", "https://auth.example.co.uk"));
	assert_true(url_same_site("https://registry:5000", "https://registry/token"));
	assert_true(url_same_site("http://10.0.0.1:5000", "http://10.0.0.1/token"));
	assert_false(url_same_site("https://a.co.uk", "https://b.co.uk"));
	assert_false(url_same_site("https://me.github.io", "https://you.github.io"));
	assert_false(url_same_site("https://docker.io", "https://docker.io.evil.example"));
	assert_false(url_same_site("https://evildocker.io", "https://docker.io"));
	assert_false(url_same_site("http://10.0.0.1", "http://10.0.0.2"));
	assert_false(url_same_site("http://[::1]", "http://[::2]"));
	assert_false(url_same_site("https://registry.lab", "https://auth.lab"));
	assert_false(url_same_site("nonsense:", "nonsense:"));
}

static void an_origin_is_scheme_host_and_port(void **state)
{
	assert_true(url_same_origin("https://A.example/x", "https://a.example:443/y?z"));
	assert_false(url_same_origin("https://a.example/x", "http://a.example/x"));
	assert_false(url_same_origin("https://a.example/x", "https://a.example:444/x"));
	assert_false(url_same_origin("https://a.example/x", "https://b.example/x"));
	assert_false(url_same_origin("nonsense:", "nonsense:"));
	assert_true(url_is_loopback("http://[::1]:5000/x"));
	assert_false(url_is_loopback("http://127.0.0.1.example/x"));
}

static void query_parameters_are_encoded(void **state)
{
	auto_free char *url =
		url_add_query("https://a/token?x=1", "scope", "repository:a/b:pull &c=d");

	assert_string_equal(url, "https://a/token?x=1&scope=repository%3aa%2fb%3apull+%26c%3dd");
}

static void delays_double_and_honour_the_server(void **state)
{
	struct retry r = RETRY_INIT;

	assert_int_equal(retry_delay(&r, 0, -1, 0), 500);
	assert_int_equal(retry_delay(&r, 0, -1, 0), 1000);
	assert_int_equal(retry_delay(&r, 0, 7, 0), 7000);
	assert_int_equal(retry_delay(&r, 0, 1, 0), 4000);
	assert_int_equal(retry_delay(&r, 0, -1, 0), 8000);
	assert_int_equal(retry_delay(&r, 0, -1, 0), -1);
	/* A fresh start after a MiB; a trickle is none. */
	assert_int_equal(retry_delay(&r, 1000, -1, 0), -1);
	assert_int_equal(retry_delay(&r, 2 << 20, -1, 0), 500);
	assert_int_equal(retry_delay(&r, (2 << 20) + 1000, -1, 0), 1000);
	/* Longer than anyone watches. */
	assert_int_equal(retry_delay(&(struct retry)RETRY_INIT, 0, 3600, 0), -1);
}

static void an_answer_longer_than_its_ceiling_is_refused(void **state)
{
	struct buffer b = BUFFER_INIT(10);
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(buffer_put(&b, "12345", 5, &err), 0);
	assert_int_equal(buffer_put(&b, "67890", 5, &err), 0);
	assert_string_equal(b.data, "1234567890");
	assert_int_equal(buffer_put(&b, "x", 1, &err), -EFBIG);
	buffer_done(&b);
}

#define MANY (3 * QUEUE_BYTES + 12345)

static void *write_many(void *ctx)
{
	static unsigned char piece[100003];

	for (size_t at = 0; at < MANY;) {
		size_t n = MANY - at < sizeof(piece) ? MANY - at : sizeof(piece);

		for (size_t i = 0; i < n; i++)
			piece[i] = (unsigned char)((at + i) * 7 % 251);
		assert_int_equal(queue_put(ctx, piece, n, NULL), 0);
		at += n;
	}
	queue_end(ctx, 0, NULL);
	return NULL;
}

static void a_queue_passes_bytes_in_order(void **state)
{
	auto_call(queue_cleanup) struct queue *q = NULL;
	unsigned char buf[70001], first[4];
	pthread_t thread;
	size_t at = 0;
	ssize_t n;

	assert_int_equal(queue_new(&q, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_many, q), 0);
	assert_int_equal(queue_peek(q, first, sizeof(first)), 4);
	assert_int_equal(first[3], 21);
	while ((n = queue_get(q, buf, sizeof(buf), NULL)) > 0)
		for (ssize_t i = 0; i < n; i++, at++)
			if (buf[i] != at * 7 % 251)
				fail_msg("byte %zu is wrong", at);
	pthread_join(thread, NULL);
	assert_int_equal(n, 0);
	assert_int_equal(at, MANY);
}

static void a_queue_hands_on_the_writers_failure_after_its_bytes(void **state)
{
	auto_call(queue_cleanup) struct queue *q = NULL;
	struct mlr_error err = MLR_ERROR_INIT, got = MLR_ERROR_INIT;
	char buf[10];

	assert_int_equal(queue_new(&q, NULL), 0);
	assert_int_equal(queue_put(q, "abc", 3, NULL), 0);
	queue_end(q, mlr_fail(&err, ECONNRESET, "broke"), &err);
	assert_int_equal(queue_peek(q, buf, sizeof(buf)), 3);
	assert_int_equal(queue_get(q, buf, sizeof(buf), &got), 3);
	assert_int_equal(queue_get(q, buf, sizeof(buf), &got), -ECONNRESET);
	assert_string_equal(got.text, "broke");
}

static void *fill(void *ctx)
{
	static char piece[QUEUE_BYTES];

	queue_put(ctx, piece, sizeof(piece), NULL);
	return (void *)(intptr_t)queue_put(ctx, piece, sizeof(piece), NULL);
}

static void a_writer_is_let_go_when_the_reader_leaves(void **state)
{
	auto_call(queue_cleanup) struct queue *q = NULL;
	pthread_t thread;
	void *result;

	assert_int_equal(queue_new(&q, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, fill, q), 0);
	queue_leave(q);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, -EPIPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(challenges_are_read_whatever_their_spelling),
		cmocka_unit_test(malformed_challenges_are_refused),
		cmocka_unit_test(redirects_lead_to_https_or_stay_where_they_are),
		cmocka_unit_test(token_servers_are_https_unless_all_is_on_loopback),
		cmocka_unit_test(a_site_is_a_host_or_hosts_below_one_registrable_domain),
		cmocka_unit_test(an_origin_is_scheme_host_and_port),
		cmocka_unit_test(query_parameters_are_encoded),
		cmocka_unit_test(delays_double_and_honour_the_server),
		cmocka_unit_test(an_answer_longer_than_its_ceiling_is_refused),
		cmocka_unit_test(a_queue_passes_bytes_in_order),
		cmocka_unit_test(a_queue_hands_on_the_writers_failure_after_its_bytes),
		cmocka_unit_test(a_writer_is_let_go_when_the_reader_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
