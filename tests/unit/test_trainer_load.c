#include "unit.h"

#include "load/answer.h"
#include "load/check.h"
#include "load/results.h"
#include "load/load.h"
#include "load/request.h"
#include "load/stages.h"

#include <math.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* --- histogram -------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* From 1 µs to an hour, as many in each power of ten. */
static uint64_t made_duration(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint64_t)pow(10, (double)(*state >> 11) * 0x1p-53 * log10(HISTOGRAM_MAX));
}

static void percentiles_are_exact_to_three_digits(void **state)
{
	static const double asked[] = { 0, 1, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100 };
	enum { N = 100000 };
	uint64_t *v = xcalloc(N, sizeof(*v)), seed = 7;
	struct histogram *h = histogram_new();
	double sum = 0;

	for (int i = 0; i < N; i++) {
		v[i] = made_duration(&seed);
		histogram_record(h, v[i]);
		sum += (double)v[i];
	}
	qsort(v, N, sizeof(*v), ascending);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		size_t rank = (size_t)ceil(asked[i] / 100 * N - 1e-6);
		uint64_t exact = v[rank ? rank - 1 : 0], told = histogram_percentile(h, asked[i]);

		assert_true(told >= exact);
		assert_true((double)(told - exact) <= (double)exact / 1000);
	}
	assert_int_equal(h->least, v[0]);
	assert_int_equal(h->most, v[N - 1]);
	assert_int_equal(histogram_percentile(h, 100), v[N - 1]);
	assert_true(fabs(histogram_mean(h) / (sum / N) - 1) < 1e-9);
	free(v);
	free(h);
}

static void short_durations_are_exact(void **state)
{
	struct histogram *h = histogram_new();

	for (uint64_t us = 1; us <= 2000; us++)
		histogram_record(h, us);
	assert_int_equal(histogram_percentile(h, 50), 1000);
	assert_int_equal(histogram_percentile(h, 99.9), 1998);
	assert_int_equal(histogram_percentile(h, 99.95), 1999);
	free(h);
}

static void histograms_add_up_and_an_hour_is_the_most(void **state)
{
	struct histogram *a = histogram_new(), *b = histogram_new();

	assert_int_equal(histogram_percentile(a, 50), 0);
	histogram_add(a, b);
	assert_int_equal(a->count, 0);
	histogram_record(a, 10);
	histogram_record(b, UINT64_MAX);
	histogram_record(b, 3);
	histogram_add(a, b);
	assert_int_equal(a->count, 3);
	assert_int_equal(a->least, 3);
	assert_int_equal(a->most, HISTOGRAM_MAX);
	assert_int_equal(histogram_percentile(a, 50), 10);
	assert_int_equal(histogram_percentile(a, 100), HISTOGRAM_MAX);
	histogram_clear(a);
	assert_int_equal(a->count, 0);
	free(a);
	free(b);
}

/* --- stages ----------------------------------------------------------------------------- */

static void durations_are_those_of_go(void **state)
{
	static const struct {
		const char *text;
		double seconds;
	} good[] = { { "30s", 30 }, { "1m30s", 90 }, { "500ms", 0.5 }, { "1.5h", 5400 },
		{ "90", 90 }, { "0s", 0 }, { "250us", 250e-6 }, { "1d", 86400 } };
	static const char *const bad[] = { "", "s", "30x", "1m30", "-1s", "1..5s", "30 s", "1e3s",
		"8d", "99999999999999999999d", "." };
	double v;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(stages_duration(good[i].text, strlen(good[i].text), &v), 0);
		assert_true(fabs(v - good[i].seconds) < 1e-9);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (stages_duration(bad[i], strlen(bad[i]), &v) == 0)
			fail_msg("'%s' was taken", bad[i]);
}

static void users_go_in_straight_lines(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct stages s;

	assert_int_equal(stages_parse("30s:20,1m:20,30s:0", &s, &err), 0);
	assert_int_equal((int)stages_seconds(&s), 120);
	assert_int_equal(stages_most(&s), 20);
	assert_int_equal(stages_users(&s, 0), 1); /* as k6's startVUs */
	assert_int_equal(stages_users(&s, 15), 11);
	assert_int_equal(stages_users(&s, 29.999), 20);
	assert_int_equal(stages_users(&s, 60), 20);
	assert_int_equal(stages_users(&s, 105), 10);
	assert_int_equal(stages_users(&s, 119.999), 0);
	assert_int_equal(stages_users(&s, 500), 0);
	assert_int_equal(stages_parse("0s:7,10s:7", &s, &err), 0);
	assert_int_equal(stages_users(&s, 0), 7);
}

/* Who waits until the next change misses none, and no time passes twice. */
static void each_change_of_users_has_its_moment(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct stages s;
	unsigned before = 1, steps = 0;

	assert_int_equal(stages_parse("3s:20,1s:20,2s:0", &s, &err), 0);
	for (double t = 0, then; !isinf(then = stages_change(&s, t)); t = then, steps++) {
		unsigned now;

		assert_true(then > t);
		now = stages_users(&s, then + 1e-9);
		assert_true(now <= before + 1 && before <= now + 1);
		assert_int_equal(stages_users(&s, (t + then) / 2), stages_users(&s, t + 1e-9));
		before = now;
	}
	assert_in_range(steps, 40, 45);
}

static void assert_stages_refused(const char *text, const char *says)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct stages s;

	assert_int_equal(stages_parse(text, &s, &err), -EINVAL);
	if (!strstr(err.text, says))
		fail_msg("%s", err.text);
}

static void wrong_stages_are_named(void **state)
{
	assert_stages_refused("30s:20,1x:20", "stage 2: '1x' is not a duration");
	assert_stages_refused("30s", "stage 1: '30s' is not DURATION:USERS");
	assert_stages_refused("30s:", "stage 1: '' is not a number of users");
	assert_stages_refused("30s:2.5", "'2.5' is not a number of users");
	assert_stages_refused("30s:999999", "from 0 to 100000");
	assert_stages_refused("30s:20,", "stage 2: '' is not DURATION:USERS");
	assert_stages_refused("0s:20", "no time");
	assert_stages_refused("5d:1,5d:1", "more than a week");
	assert_stages_refused("10s:0", "no stage has users");
}

/* --- checks and thresholds -------------------------------------------------------------- */

static struct check check_of(const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct check c;

	if (check_parse(text, &c, &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

static int status_passes(const char *text, int status)
{
	auto_call(check_done) struct check c = check_of(text);

	return check_status(&c, status);
}

static int bytes_pass(const char *text, const char *bytes)
{
	auto_call(check_done) struct check c = check_of(text);

	return check_bytes(&c, bytes, strlen(bytes));
}

static void checks_are_true_or_false(void **state)
{
	assert_true(status_passes("status==200", 200));
	assert_true(status_passes(" status === 200 ", 200));
	assert_false(status_passes("status == 200", 201));
	assert_true(status_passes("status<400", 399));
	assert_false(status_passes("status<400", 400));
	assert_true(status_passes("status!=500", 200));
	assert_true(bytes_pass("body contains \"prediction\"", "{\"prediction\":[7]}"));
	assert_true(bytes_pass("body contains prediction", "a prediction"));
	assert_false(bytes_pass("body contains 'x'", ""));
	assert_true(bytes_pass("body == ''", ""));
	assert_false(bytes_pass("body == 'ab'", "abc"));
	assert_true(bytes_pass("header X-MLAPI-Cache == \"Hit\"", "Hit"));
	assert_true(bytes_pass("header x!=Hit", "Miss"));
}

static void wrong_checks_are_named(void **state)
{
	static const struct {
		const char *text, *says;
	} wrong[] = { { "", "begins with none of" }, { "code==200", "begins with none of" },
		{ "status", "no comparison at ''" }, { "status==ok", "'ok' is not a status" },
		{ "status contains 2", "a status is compared with" },
		{ "body < 3", "text is compared with" }, { "body contains ''", "nothing stands" },
		{ "header == x", "the header has no name" },
		{ "header Server nginx", "no comparison at 'nginx'" } };

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct check c;

		assert_int_equal(check_parse(wrong[i].text, &c, &err), -EINVAL);
		if (!strstr(err.text, wrong[i].says))
			fail_msg("%s", err.text);
	}
}

/* 1000 answers of 1 to 1000 ms, of which ten failed, within ten seconds. */
static void make_results(struct results *r)
{
	results_init(r);
	for (unsigned i = 1; i <= 1000; i++)
		results_answer(r, i <= 10 ? 500 : 200, i * 1000);
	results_row_end(r, 1);
	r->checks_passed = 990;
	r->checks_failed = 10;
	r->seconds = 10;
}

static void thresholds_are_kept_or_broken(void **state)
{
	static const struct {
		const char *text;
		int kept;
	} cases[] = { { "p(99)<2000ms", 1 }, { "p(99)<991", 1 }, { "p(99)<989ms", 0 },
		{ "p(95)<0.9s", 0 }, { "p(99.9)<=1s", 1 }, { "med<501", 1 }, { "med<499.9", 0 },
		{ "avg<501", 1 }, { "avg<500", 0 }, { "max<1000", 0 }, { "max<=1000", 1 },
		{ "min>=1", 1 }, { "http_req_duration: p(50) < 501", 1 },
		{ "http_req_duration p(50)<501", 1 }, { "http_req_failed:rate<0.02", 1 },
		{ "http_req_failed:rate<1%", 0 }, { "http_req_failed: rate<=1%", 1 },
		{ "http_reqs:rate>99", 1 }, { "http_reqs:rate>100", 0 },
		{ "http_reqs:count>=1000", 1 }, { "checks:rate>0.98", 1 }, { "checks:rate>99%", 0 },
		{ "med<1m", 1 }, { "med<1us", 0 } };
	struct results r, none;

	make_results(&r);
	results_init(&none);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct threshold t;

		if (threshold_parse(cases[i].text, &t, &err) < 0)
			fail_msg("%s: %s", cases[i].text, err.text);
		if (threshold_kept(&t, &r) != cases[i].kept)
			fail_msg("%s: saw %g", cases[i].text, threshold_seen(&t, &r));
		if (strncmp(cases[i].text, "http_reqs", 9) != 0)
			assert_false(threshold_kept(&t, &none));
		threshold_done(&t);
	}
	results_done(&r);
	results_done(&none);
}

static void wrong_thresholds_are_named(void **state)
{
	static const struct {
		const char *text, *says;
	} wrong[] = { { "p(99<2000", "is not a percentile" }, { "p(101)<1", "is not a percentile" },
		{ "p<1", "is none of avg, min" }, { "q(9)<1", "'q' is none of avg" },
		{ "http_req_waiting:avg<1", "'http_req_waiting' is none of" },
		{ "http_req_failed:p(99)<1", "http_req_failed has no p" },
		{ "rate<1", "http_req_duration has no rate" }, { "avg", "no comparison" },
		{ "avg<", "'' is not a bound such as 2000ms" }, { "avg<-1", "'-1' is not a bound" },
		{ "avg<1x", "'1x' is not a bound" }, { "avg<1s 2s", "'1s 2s' is not a bound" },
		{ "avg<5%", "is not a bound" }, { "http_reqs:rate>1s", "such as 1000" },
		{ "checks:rate>x", "such as 0.01 or 1%" }, { "avg<nan", "is not a bound" },
		{ "", "is none of avg" } };

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct threshold t;

		if (threshold_parse(wrong[i].text, &t, &err) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i].text);
		if (!strstr(err.text, wrong[i].says))
			fail_msg("'%s': %s", wrong[i].text, err.text);
	}
}

/* --- answers ---------------------------------------------------------------------------- */

/* Read an answer in pieces of some bytes. Returns answer_read()'s last word, and at the
 * connection's end that of answer_end(). */
static int read_in_pieces(struct answer *a, const char *text, size_t len, size_t piece)
{
	size_t used;

	answer_begin(a, 0);
	for (size_t at = 0; at < len; at += used) {
		size_t n = len - at < piece ? len - at : piece;
		int r = answer_read(a, text + at, n, &used);

		if (r)
			return r;
		assert_int_equal(used, n);
	}
	return answer_end(a);
}

static void answers_come_in_any_pieces(void **state)
{
	static const struct {
		const char *text;
		int status, keeps_alive;
		const char *body;
	} good[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, 1, "abc" },
		{ "HTTP/1.1 200\r\ncontent-length:3\r\nConnection: close\r\n\r\nabc", 200, 0,
			"abc" },
		{ "HTTP/1.0 200 OK\nContent-Length: 3\n\nabc", 200, 0, "abc" },
		{ "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc", 200,
			1, "abc" },
		{ "HTTP/1.1 200 OK\r\n\r\nto the end", 200, 0, "to the end" },
		{ "HTTP/1.1 204 No Content\r\n\r\n", 204, 1, "" },
		{ "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", 503,
			1, "" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n"
		  "0\r\nTrailer: x\r\n\r\n",
			200, 1, "abc0123456789" },
	};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		for (size_t piece = 1; piece <= strlen(good[i].text); piece++) {
			struct answer a = { .keep_max = 100 };

			if (read_in_pieces(&a, good[i].text, strlen(good[i].text), piece) != 1)
				fail_msg("answer %zu in pieces of %zu", i, piece);
			assert_int_equal(a.status, good[i].status);
			assert_int_equal(a.keeps_alive, good[i].keeps_alive);
			assert_int_equal(a.kept, strlen(good[i].body));
			if (a.kept)
				assert_memory_equal(a.body, good[i].body, a.kept);
			answer_done(&a);
		}
}

static void what_is_not_http_is_refused(void **state)
{
	static const char *const bad[] = { "SSH-2.0-OpenSSH\r\n", "HTTP/2 200\r\n",
		"HTTP/1.1 99 x\r\n", "HTTP/1.1 600 x\r\n", "HTTP/1.1 2000\r\n", "\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n", "HTTP/1.1 200 OK\r\n folded: x\r\n",
		"HTTP/1.1 200 OK\r\nname : x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		for (size_t piece = 1; piece <= strlen(bad[i]); piece += 3) {
			struct answer a = { .keep_max = 100 };

			if (read_in_pieces(&a, bad[i], strlen(bad[i]), piece) != -EPROTO)
				fail_msg("'%s' in pieces of %zu", bad[i], piece);
			answer_done(&a);
		}
}

static void an_answer_that_is_cut_is_not_complete(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

	for (size_t len = 0; len + 1 < sizeof(text) - 1; len++) {
		struct answer a = { 0 };

		assert_int_equal(read_in_pieces(&a, text, len, sizeof(text)), 0);
		answer_done(&a);
	}
}

/* Memory stays bounded, and the reader gives up. */
static void headers_without_an_end_are_refused(void **state)
{
	char filler[4096];
	struct answer a = { .keep_max = 10 };
	size_t used, all = 0;
	int r;

	answer_begin(&a, 0);
	assert_int_equal(answer_read(&a, "HTTP/1.1 200 OK\r\n", 17, &used), 0);
	memset(filler, 'x', sizeof(filler));
	while ((r = answer_read(&a, filler, sizeof(filler), &used)) == 0)
		all += used;
	assert_int_equal(r, -EFBIG);
	assert_true(all <= ANSWER_LINE_MAX && a.room <= 2 * ANSWER_LINE_MAX);
	answer_begin(&a, 0);
	assert_int_equal(answer_read(&a, "HTTP/1.1 200 OK\r\n", 17, &used), 0);
	for (all = 0; (r = answer_read(&a, "a: b\r\n", 6, &used)) == 0; all += used)
		;
	assert_int_equal(r, -EFBIG);
	assert_true(all <= ANSWER_HEAD_MAX);
	/* of a long body only its beginning is kept */
	answer_begin(&a, 0);
	assert_int_equal(answer_read(&a, "HTTP/1.1 200 OK\r\n\r\n", 19, &used), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(answer_read(&a, filler, sizeof(filler), &used), 0);
	assert_int_equal(a.kept, 10);
	assert_true(a.body_room <= 256);
	answer_done(&a);
}

/* --- targets ---------------------------------------------------------------------------- */

static void urls_give_host_port_and_path(void **state)
{
	static const struct {
		const char *url, *host, *port, *path, *authority, *socket;
		int tls;
	} good[] = {
		{ "http://localhost:8000/predict?x=1#y", "localhost", "8000", "/predict?x=1",
			"localhost:8000", NULL, 0 },
		{ "https://example.org", "example.org", "443", "/", "example.org", NULL, 1 },
		{ "http://[::1]:81/a", "::1", "81", "/a", "[::1]:81", NULL, 0 },
		{ "http://a?q", "a", "80", "/?q", "a", NULL, 0 },
		{ "unix:/run/s.sock:/predict", NULL, NULL, "/predict", "localhost", "/run/s.sock",
			0 },
		{ "unix:s", NULL, NULL, "/", "localhost", "s", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		auto_call(target_done) struct target t = { 0 };

		if (target_parse(good[i].url, &t, &err) < 0)
			fail_msg("%s", err.text);
		assert_string_equal(t.path, good[i].path);
		assert_string_equal(t.authority, good[i].authority);
		assert_int_equal(t.tls, good[i].tls);
		if (good[i].host) {
			assert_string_equal(t.host, good[i].host);
			assert_string_equal(t.port, good[i].port);
		} else {
			assert_string_equal(t.socket, good[i].socket);
		}
	}
}

static void wrong_urls_are_named(void **state)
{
	static const struct {
		const char *url, *says;
	} wrong[] = { { "localhost:8000", "hint: is http://localhost:8000 meant?" },
		{ "ftp://x/", "begins with none of" }, { "http://", "names no host" },
		{ "http:///x", "names no host" }, { "http://:80/", "names no host" },
		{ "http://[]:80/", "names no host" }, { "http://[::1]x/", "names no host" },
		{ "http://[::1/", "no ']' ends" }, { "http://a:0/", "'0' is not a port" },
		{ "http://a:99999/", "'99999' is not a port" },
		{ "http://a:/", "'' is not a port" }, { "http://a/ b", "no blanks" },
		{ "http://u:p@a/", "hint: --token-file" }, { "unix:", "no socket is named" } };

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct target t;

		assert_int_equal(target_parse(wrong[i].url, &t, &err), -EINVAL);
		if (!strstr(err.text, wrong[i].says) || !strstr(err.text, "URL '"))
			fail_msg("%s", err.text);
	}
}

/* --- requests --------------------------------------------------------------------------- */

static const struct strv no_headers = STRV_INIT;

static struct request_options wish(const struct target *t, struct request_body *b, size_t n)
{
	return (struct request_options){ .target = t,
		.headers = &no_headers,
		.bodies = b,
		.n_bodies = n,
		.cache_rate = 1,
		.seed = 1 };
}

static void make_target(struct target *t)
{
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(target_parse("http://h:1/p", t, &err), 0);
}

static void requests_repeat_their_bodies_in_turn(void **state)
{
	char a[] = "{\"x\":{unique}}", b[] = "two";
	struct request_body bodies[] = { { a, strlen(a) }, { b, strlen(b) } };
	auto_call(target_done) struct target t = { 0 };
	auto_call(requests_free) struct requests *q = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct request_buffer buffer = { 0 };
	struct request_options o;
	struct request r;

	make_target(&t);
	o = wish(&t, bodies, 2);
	o.token = "secret";
	assert_int_equal(requests_new(&o, &q, &err), 0);
	for (int i = 0; i < 4; i++) {
		auto_free char *text = NULL;

		assert_int_equal(requests_next(q, &buffer, &r, &err), 0);
		text = xstrndup(r.bytes, r.len);
		assert_true(strncmp(text, "POST /p HTTP/1.1\r\nHost: h:1\r\n", 29) == 0);
		assert_non_null(strstr(text, "\r\nAuthorization: Bearer secret\r\n"));
		assert_non_null(strstr(text,
			i % 2 ? "Content-Type: application/octet-stream\r\nContent-Length: 3\r\n\r\ntwo"
			      : "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"x\":0}"));
		assert_false(r.is_unique);
	}
	free(buffer.bytes);
}

static void the_cache_rate_is_the_share_of_known_requests(void **state)
{
	char a[] = "{unique}";
	struct request_body body = { a, strlen(a) };
	auto_call(target_done) struct target t = { 0 };
	auto_call(requests_free) struct requests *q = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct request_buffer buffer = { 0 };
	struct request_options o;
	struct request r;
	uint64_t last = 0, v;
	int unique = 0;

	make_target(&t);
	o = wish(&t, &body, 1);
	o.cache_rate = 0.95;
	assert_int_equal(requests_new(&o, &q, &err), 0);
	for (int i = 0; i < 10000; i++) {
		auto_free char *text = NULL;

		assert_int_equal(requests_next(q, &buffer, &r, &err), 0);
		text = xstrndup(r.bytes, r.len);
		v = strtoull(strstr(text, "\r\n\r\n") + 4, NULL, 10);
		if (!r.is_unique) {
			assert_int_equal(v, 0);
			continue;
		}
		assert_true(v > last && v < (uint64_t)1 << 53);
		last = v;
		unique++;
	}
	assert_in_range(unique, 400, 600);
	free(buffer.bytes);
}

static void pictures_differ_where_nobody_sees_it(void **state)
{
	auto_call(pictures_done) struct pictures all = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct picture other[2];
	struct image_size size;
	uint8_t *was, *is;
	unsigned differ = 0;

	if (pictures_read("/usr/share/datasets/fashion-mnist", 300, &all, &err) < 0) {
		print_message("# %s\n", err.text);
		return;
	}
	assert_int_equal(all.n, 300);
	assert_int_equal(picture_vary(&all.v[0], 0xffffffff, &other[0], &err), 0);
	assert_int_equal(picture_vary(&all.v[0], 5, &other[1], &err), 0);
	assert_int_equal(picture_decode(&all.v[0], &size, &was, &err), 0);
	assert_int_equal(picture_decode(&other[0], &size, &is, &err), 0);
	for (unsigned i = 0; i < 784; i++) {
		assert_true(abs(was[i] - is[i]) <= 1);
		differ += was[i] != is[i];
	}
	assert_int_equal(differ, 32);
	assert_true(other[0].len != other[1].len ||
		memcmp(other[0].file, other[1].file, other[0].len) != 0);
	free(was);
	free(is);
	free(other[0].file);
	free(other[1].file);
}

static void wrong_requests_are_named(void **state)
{
	char plain[] = "x", picture[] = "{base64}";
	struct request_body bodies[] = { { plain, 1 }, { picture, 8 } };
	auto_call(target_done) struct target t = { 0 };
	auto_strv struct strv bad = STRV_INIT, own = STRV_INIT, split = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct request_options o[6];
	static const char *const says[] = { "write {unique} where a number may stand",
		"--images names none", "is not one line such as 'Name: value'",
		"the header Connection is not yours to set", "'GE T' is not a method",
		"is not one line" };
	struct requests *q;

	make_target(&t);
	strv_add(&bad, "no colon");
	strv_add(&own, "connection: close");
	strv_add(&split, "a: b\r\nc: d");
	for (int i = 0; i < 6; i++)
		o[i] = wish(&t, i == 1 ? bodies + 1 : bodies, 1);
	o[0].cache_rate = 0.5;
	o[2].headers = &bad;
	o[3].headers = &own;
	o[4].method = "GE T";
	o[5].headers = &split;
	for (int i = 0; i < 6; i++) {
		assert_int_equal(requests_new(&o[i], &q, &err), -EINVAL);
		if (!strstr(err.text, says[i]))
			fail_msg("%s", err.text);
	}
}

/* --- a run ------------------------------------------------------------------------------ */

/* The kernel takes connections, and nobody answers. */
static int listen_and_stall(char url[40])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	snprintf(url, 40, "http://127.0.0.1:%d/", ntohs(a.sin_port));
	return fd;
}

static void requests_without_an_answer_are_timeouts_at_the_end(void **state)
{
	static const volatile sig_atomic_t stop;
	struct target target = { 0 };
	struct strv headers = { 0 };
	struct request_options q = { .target = &target, .headers = &headers, .cache_rate = 1 };
	struct load_options o = { .target = &target,
		.rate = 100,
		.seconds = 0.1,
		.connections_max = 4,
		.timeout_s = 60,
		.grace_s = 0.1,
		.stop = &stop };
	struct mlr_error err = MLR_ERROR_INIT;
	struct results r;
	char url[40];
	int fd = listen_and_stall(url);

	results_init(&r);
	assert_int_equal(target_parse(url, &target, &err), 0);
	assert_int_equal(target_find(&target, &err), 0);
	assert_int_equal(requests_new(&q, &o.requests, &err), 0);
	assert_int_equal(load_run(&o, &r, &err), 0);
	assert_int_equal(r.requests, 10);
	assert_int_equal(r.failed, 10);
	assert_int_equal(r.kinds[RESULTS_TIMEOUT], 10);
	assert_int_equal(r.unfinished, 4);
	assert_int_equal(r.not_sent, 6);
	/* Those on their way waited through the grace, the others to the planned end. */
	assert_in_range(r.all->most, 199000, 2000000);
	assert_in_range(r.all->least, 9000, 90000);
	/* Of the rate are those that were sent, in the time that was planned. */
	assert_true(fabs(r.seconds - 0.1) < 1e-9);
	assert_true(fabs(results_rate(&r) - 40) < 1e-6);
	requests_free(&o.requests);
	results_done(&r);
	target_done(&target);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_exact_to_three_digits),
		cmocka_unit_test(short_durations_are_exact),
		cmocka_unit_test(histograms_add_up_and_an_hour_is_the_most),
		cmocka_unit_test(durations_are_those_of_go),
		cmocka_unit_test(users_go_in_straight_lines),
		cmocka_unit_test(each_change_of_users_has_its_moment),
		cmocka_unit_test(wrong_stages_are_named),
		cmocka_unit_test(checks_are_true_or_false),
		cmocka_unit_test(wrong_checks_are_named),
		cmocka_unit_test(thresholds_are_kept_or_broken),
		cmocka_unit_test(wrong_thresholds_are_named),
		cmocka_unit_test(answers_come_in_any_pieces),
		cmocka_unit_test(what_is_not_http_is_refused),
		cmocka_unit_test(an_answer_that_is_cut_is_not_complete),
		cmocka_unit_test(headers_without_an_end_are_refused),
		cmocka_unit_test(urls_give_host_port_and_path),
		cmocka_unit_test(wrong_urls_are_named),
		cmocka_unit_test(requests_repeat_their_bodies_in_turn),
		cmocka_unit_test(the_cache_rate_is_the_share_of_known_requests),
		cmocka_unit_test(pictures_differ_where_nobody_sees_it),
		cmocka_unit_test(wrong_requests_are_named),
		cmocka_unit_test(requests_without_an_answer_are_timeouts_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
