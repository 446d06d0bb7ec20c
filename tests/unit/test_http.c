/* src/http with a program of its own: what mltrain serve does not use of it, or only seldom. */
#include "unit.h"

#include "http/http.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct http_use use;
static struct http_server *server;
static char path[] = "/tmp/test_http.XXXXXX", file[] = "/tmp/test_http.XXXXXX";

/* The stream that goes on; lock as http_stream_wake() wants it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct http_request *streamed;
static int said, calls, ended;

struct state {
	int is_resumed;
	char text[200];
};

static void head(struct http_request *q)
{
	q->is_open = strcmp(q->path, "/open") == 0;
	if (strcmp(q->path, "/small") == 0)
		q->body_max = 4;
	if (strcmp(q->path, "/none") == 0)
		mlr_fail(&q->error, ENOENT, "there is no such path");
}

static ssize_t tell(struct http_request *q, char *to, size_t size)
{
	ssize_t n = 0;

	pthread_mutex_lock(&lock);
	streamed = q;
	calls++;
	if (said) {
		n = snprintf(to, size, "data: %d\n\n", said);
		said = 0;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

static void *resume(void *q)
{
	mlr_sleep_ms(20);
	http_resume(q);
	return NULL;
}

static int answer(struct http_request *q, struct http_reply *ret)
{
	struct state *state = q->state;
	const char *name = http_argument(q, "name"), *empty = http_argument(q, "empty");
	pthread_t thread;

	ret->type = "text/plain";
	if (strcmp(q->path, "/events") == 0) {
		ret->read = tell;
		return 0;
	}
	if (strcmp(q->path, "/file") == 0) {
		ret->fd = open(file, O_RDONLY | O_CLOEXEC);
		ret->offset = 3;
		ret->len = 200000;
		return 0;
	}
	if (strcmp(q->path, "/later") == 0 && !state->is_resumed) {
		state->is_resumed = 1;
		http_suspend(q);
		if (pthread_create(&thread, NULL, resume, q) != 0)
			abort();
		pthread_detach(thread);
		return HTTP_LATER;
	}
	if (strcmp(q->path, "/refused") == 0)
		return mlr_fail(&q->error, EEXIST, "somebody else has changed it");
	snprintf(state->text, sizeof(state->text), "%s %s token %d name %s empty %s body %.*s",
		q->method, q->path, q->token, name ? name : "-", empty ? empty : "-", (int)q->len,
		q->body ? q->body : "");
	ret->content = state->text;
	ret->len = strlen(state->text);
	http_reply_add(ret, "X-Own", "yes");
	return 0;
}

static int refuse(struct http_request *q, struct http_reply *ret)
{
	ret->body = xstrdup(q->error.text);
	ret->len = strlen(ret->body);
	return 0;
}

static void done(struct http_request *q)
{
	pthread_mutex_lock(&lock);
	if (streamed == q) {
		streamed = NULL;
		ended++;
	}
	pthread_mutex_unlock(&lock);
}

static void wake(int what)
{
	pthread_mutex_lock(&lock);
	said = what;
	if (streamed)
		http_stream_wake(streamed);
	pthread_mutex_unlock(&lock);
}

static int is_over(int times)
{
	int is;

	pthread_mutex_lock(&lock);
	is = ended == times;
	pthread_mutex_unlock(&lock);
	return is;
}

/* --- a client --- */

static int ask(const char *text)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

/* Read until a text is there or the server has closed. */
static void await(int fd, const char *text, char *got, size_t size)
{
	size_t len = strlen(got);

	while (!text || !strstr(got, text)) {
		ssize_t n = read(fd, got + len, size - 1 - len);

		assert_true(n >= 0);
		len += (size_t)n;
		got[len] = '\0';
		if (n == 0 && text)
			fail_msg("no '%s' in '%s'", text, got);
		if (n == 0)
			return;
	}
}

static void expect(const char *request, const char *status, const char *text)
{
	char got[4096] = "";
	int fd = ask(request);

	await(fd, text, got, sizeof(got));
	if (strncmp(got + strlen("HTTP/1.1 "), status, 3) != 0)
		fail_msg("%s is not %s", got, status);
	close(fd);
}

#define HEAD "Host: any\r\nAuthorization: Bearer 0123456789abcdef\r\n"
#define TAIL "Host: any\r\nAuthorization: Bearer fedcba9876543210\r\n\r\n"

static void a_request_has_arguments_a_token_and_a_body(void **state)
{
	expect("GET /a%20b?name=%C3%A9+x&empty&name=2 HTTP/1.1\r\n" HEAD "\r\n", "200",
		"GET /a b token 1 name \xc3\xa9 x empty  body ");
	expect("PUT /a HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\nxyz", "200",
		"PUT /a token 1 name - empty - body xyz");
	expect("GET /a HTTP/1.1\r\n" TAIL, "200", "X-Own: yes");
	expect("GET /a HTTP/1.1\r\n" TAIL, "200", "X-Everywhere: too");
	expect("GET /a HTTP/1.1\r\n" TAIL, "200", "token 2");
	expect("GET /open HTTP/1.1\r\nHost: any\r\n\r\n", "200", "token 0");
}

static void a_request_is_refused_by_the_status_of_its_error(void **state)
{
	expect("GET /a HTTP/1.1\r\nHost: any\r\n\r\n", "401", "give the token");
	expect("GET /none HTTP/1.1\r\nHost: any\r\n\r\n", "401", "give the token");
	expect("GET /none HTTP/1.1\r\n" HEAD "\r\n", "404", "there is no such path");
	expect("GET /refused HTTP/1.1\r\n" HEAD "\r\n", "409", "somebody else has changed it");
	expect("POST /small HTTP/1.1\r\n" HEAD "Content-Length: 5\r\n\r\nabcde", "413",
		"more than 4 bytes");
	expect("POST /a HTTP/1.1\r\n" HEAD "Origin: http://other\r\nContent-Length: 1\r\n\r\na",
		"403", "'http://other'");
	expect("POST /a HTTP/1.1\r\n" HEAD "Origin: http://any\r\nContent-Length: 1\r\n\r\na",
		"200", "body a");
}

static void a_request_is_answered_later_from_another_thread(void **state)
{
	expect("GET /later?name=n HTTP/1.1\r\n" HEAD "\r\n", "200", "GET /later token 1 name n");
}

static void a_part_of_a_file_is_an_answer(void **state)
{
	static char got[300000];
	int fd = ask("GET /file HTTP/1.1\r\n" HEAD "Connection: close\r\n\r\n");

	got[0] = '\0';
	await(fd, NULL, got, sizeof(got));
	assert_non_null(strstr(got, "Content-Length: 200000\r\n"));
	assert_int_equal(strlen(strstr(got, "\r\n\r\n") + 4), 200000);
	assert_memory_equal(strstr(got, "\r\n\r\n") + 4, "3456789", 7);
	close(fd);
}

static void a_stream_sleeps_until_it_is_woken(void **state)
{
	char got[4096] = "";
	int fd = ask("GET /events HTTP/1.1\r\n" HEAD "\r\n"), before;

	await(fd, "\r\n\r\n", got, sizeof(got)); /* before there is anything to say */
	for (int i = 1; i <= 3; i++) {
		char text[32];

		snprintf(text, sizeof(text), "data: %d\n\n", i);
		wake(i);
		await(fd, text, got, sizeof(got));
	}
	mlr_sleep_ms(50);
	pthread_mutex_lock(&lock);
	before = calls;
	pthread_mutex_unlock(&lock);
	mlr_sleep_ms(300);
	pthread_mutex_lock(&lock);
	assert_int_equal(calls, before); /* it does not spin */
	pthread_mutex_unlock(&lock);
	/* Longer than request_ms by now, which counts for what a client takes. */
	mlr_sleep_ms(1000);
	wake(4);
	await(fd, "data: 4\n\n", got, sizeof(got));

	/* A client that is gone is found at the next call. */
	close(fd);
	assert_true(is_over(0));
	wake(0);
	for (int i = 0; i < 200 && !is_over(1); i++)
		mlr_sleep_ms(10);
	assert_true(is_over(1));
}

static void the_end_of_the_server_ends_its_streams(void **state)
{
	char got[4096] = "";
	int fd = ask("GET /events HTTP/1.1\r\n" HEAD "\r\n");

	wake(5);
	await(fd, "data: 5\n\n", got, sizeof(got));
	assert_int_equal(http_drain(server, 10000), 0);
	await(fd, NULL, got, sizeof(got));
	assert_non_null(strstr(got, "\r\n0\r\n\r\n")); /* the last chunk */
	assert_true(is_over(2));
	close(fd);
	http_close(&server);
	assert_int_equal(use.connections, 0);
	assert_int_equal(use.memory, 0);
}

static int set_up(void **state)
{
	static const char *const tokens[] = { "0123456789abcdef", "fedcba9876543210", NULL };
	static const struct http_field fields[] = { { "X-Everywhere", "too" }, { NULL } };
	static const struct http_wish wish = { .tokens = tokens,
		.fields = fields,
		.threads = 1,
		.connections = 16,
		.body = 1000,
		.memory = 1 << 20,
		.state = sizeof(struct state),
		.idle_ms = 10000,
		.request_ms = 500,
		.head = head,
		.answer = answer,
		.fail = refuse,
		.done = done };
	auto_free char *where = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct http_socket listening;
	auto_close int fd = mkstemp(file);

	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 30000; i++)
		if (write(fd, "0123456789", 10) != 10)
			return -1;
	close(mkstemp(path));
	unlink(path);
	where = xasprintf("unix:%s", path);
	if (http_listen(where, 0, &listening, &err) < 0 ||
		http_open(&wish, &use, &listening, 1, &server, &err) < 0)
		return -1;
	free(listening.name);
	return 0;
}

static int tear_down(void **state)
{
	unlink(path);
	unlink(file);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_has_arguments_a_token_and_a_body),
		cmocka_unit_test(a_request_is_refused_by_the_status_of_its_error),
		cmocka_unit_test(a_request_is_answered_later_from_another_thread),
		cmocka_unit_test(a_part_of_a_file_is_an_answer),
		cmocka_unit_test(a_stream_sleeps_until_it_is_woken),
		cmocka_unit_test(the_end_of_the_server_ends_its_streams),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
