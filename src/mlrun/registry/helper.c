#include "registry/helper.h"

#include "base/program.h"
#include "base/spawn.h"
#include "oci/json.h"
#include "registry/buffer.h"
#include "registry/http.h"

#include <poll.h>

#define ANSWER_MAX (64u << 10) /* bytes */
#define TIME_MS    60000
/* For a secret of 64 KiB with each byte escaped, and the rest of the JSON. */
#define PIPE_SIZE  (1 << 20)
#define TOKEN_USER "<token>" /* the protocol's user name for an identity token */

extern char **environ;

/* The name becomes part of a program's name: it must not lead out of the PATH. */
static int check_name(const char *name, struct mlr_error *err)
{
	size_t n =
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	if (n > 0 && name[n] == '\0')
		return 0;
	return mlr_fail(err, EPROTO, "'%s' is not a credential helper's name", name);
}

/* Read its output until it closes it or time runs out. */
static int read_answer(int fd, int64_t end, struct buffer *b, struct mlr_error *err)
{
	char buf[4096];

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		int64_t left = end - mlr_now_ms();
		ssize_t n;
		int r = left > 0 ? poll(&p, 1, (int)left) : 0;

		if (r == 0)
			return mlr_fail(err, ETIMEDOUT, "no answer within %d s", TIME_MS / 1000);
		if (r < 0 && errno == EINTR)
			return mlr_fail(err, ECANCELED, "interrupted");
		n = read(fd, buf, sizeof(buf));
		if (n == 0)
			return 0;
		if (n < 0)
			return mlr_fail_errno(err, "read its answer");
		r = buffer_put(b, buf, (size_t)n, err);
		explicit_bzero(buf, sizeof(buf));
		if (r < 0)
			return r;
	}
}

/* Wait for it to end, which may be long after it closed its output. */
static int wait_end(pid_t pid, int64_t end, int *status, struct mlr_error *err)
{
	pid_t got;

	while ((got = waitpid(pid, status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
		if (mlr_now_ms() > end)
			return mlr_fail(
				err, ETIMEDOUT, "it does not end within %d s", TIME_MS / 1000);
		mlr_sleep_ms(10);
	}
	/* If SIGCHLD is ignored, its status is lost, and only its output counts. */
	return got < 0 && errno != ECHILD ? mlr_fail_errno(err, "wait for its end") : 0;
}

static void kill_and_reap(pid_t pid)
{
	kill(pid, SIGKILL);
	spawn_wait(pid);
}

/* Send its input; get its output and status. */
static int converse(pid_t pid, int *to, int from, const char *input, struct buffer *b, int *status,
	struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + TIME_MS;
	int r;

	/* The input fits into the pipe. If the helper does not read it, its status shows whether it
	 * failed. */
	fcntl(*to, F_SETPIPE_SZ, PIPE_SIZE);
	file_write_all(*to, input, strlen(input));
	close(take_fd(to));
	r = read_answer(from, end, b, err);
	if (r == 0)
		r = wait_end(pid, end, status, err);
	if (r < 0)
		kill_and_reap(pid);
	return r;
}

/* On failure its output is an error message for people. */
static int judge(int status, struct buffer *b, struct mlr_error *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		return mlr_fail(err, EIO, "killed by signal %d", WTERMSIG(status));
	for (size_t n = b->len; n > 0 && strchr(" \r\n", b->data[n - 1]); n--)
		b->data[n - 1] = '\0';
	return mlr_fail(err, EIO, "exit status %d%s%.300s", WEXITSTATUS(status),
		b->len > 0 ? ": " : "", b->len > 0 ? b->data : "");
}

static int talk(const char *program, const char *action, const char *input, struct buffer *b,
	struct mlr_error *err)
{
	char *const argv[] = { (char *)program, (char *)action, NULL };
	/* Standard error stays the user's, since helpers ask for passwords there. */
	struct spawn s = { program, argv, .flags = SPAWN_CLOSES | SPAWN_USUAL };
	int to[2], from[2], status = 0, r;
	pid_t pid;

	if (pipe2(to, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	if (pipe2(from, O_CLOEXEC) < 0) {
		r = mlr_fail_errno(err, "make a pipe");
		close(to[0]);
		close(to[1]);
		return r;
	}
	mlr_debug("%s %s", program, action);
	s.in = to[0];
	s.out = from[1];
	r = spawn_start(&s, &pid);
	close(to[0]);
	close(from[1]);
	if (r < 0) {
		mlr_result(err, r, "cannot start it");
	} else {
		r = converse(pid, &to[1], from[0], input, b, &status, err);
		if (r == 0)
			r = judge(status, b, err);
	}
	fd_close(&to[1]);
	close(from[0]);
	return r;
}

static int run(const char *name, const char *action, const char *input, struct buffer *b,
	struct mlr_error *err)
{
	auto_free char *program = NULL, *full = NULL;
	int r;

	TRY(check_name(name, err));
	program = xasprintf("docker-credential-%s", name);
	full = program_find(program);
	if (full)
		r = talk(full, action, input, b, err);
	else
		r = mlr_fail(err, ENOENT, "no such program on the PATH");
	if (r < 0)
		mlr_wrap(err, "credential helper '%s %s'", program, action);
	if (r == -ENOENT)
		mlr_hint(err, "install it, or take its name out of credHelpers or credsStore");
	return r;
}

static void drop_answer(struct buffer *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buffer_done(b);
}

#define AT(member) RECORD_AT(struct credential, member)

static const struct record_row rows[] = {
	{ "Username", RECORD_TEXT, AT(user) },
	{ "Secret", RECORD_TEXT, AT(password) },
	{ NULL },
};

static int read_credential(
	const char *name, const struct buffer *b, struct credential *ret, struct mlr_error *err)
{
	const struct record_reader r = { .manner = RECORD_PRINTABLE | RECORD_SECRET, .err = err };
	auto_call(credential_done) struct credential c = { 0 };
	json_auto_t *root = NULL;
	int e = oci_json_load(b->data ? b->data : "", b->len, ANSWER_MAX, &root, err);

	if (e == 0)
		e = record_read(&r, rows, root, &c);
	if (e == 0 && (!c.user || !c.password))
		e = mlr_fail(err, EPROTO, "no \"Username\" and \"Secret\"");
	if (e < 0)
		return mlr_wrap(
			err, "credential helper 'docker-credential-%s get': its answer", name);
	if (!*c.user && !*c.password)
		return 0;
	if (strcmp(c.user, TOKEN_USER) == 0)
		ret->identity_token = take_ptr(&c.password);
	else
		ret->password = take_ptr(&c.password);
	ret->user = take_ptr(&c.user);
	return 1;
}

int helper_get(const char *name, const char *server, struct credential *ret, struct mlr_error *err)
{
	auto_call(drop_answer) struct buffer b = BUFFER_INIT(ANSWER_MAX);
	int r = run(name, "get", server, &b, err);

	if (r == -EIO && b.data && strcasestr(b.data, "credentials not found"))
		return 0;
	return r < 0 ? r : read_credential(name, &b, ret, err);
}

int helper_store(
	const char *name, const char *server, const struct credential *c, struct mlr_error *err)
{
	auto_call(drop_answer) struct buffer b = BUFFER_INIT(ANSWER_MAX);
	json_auto_t *root = json_pack(
		"{s:s, s:s, s:s}", "ServerURL", server, "Username", c->user, "Secret", c->password);
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	int r;

	if (!text)
		return mlr_fail(err, EINVAL, "the user name or the password is not UTF-8");
	r = run(name, "store", text, &b, err);
	credential_free_secret(text);
	return r;
}

int helper_erase(const char *name, const char *server, struct mlr_error *err)
{
	auto_call(drop_answer) struct buffer b = BUFFER_INIT(ANSWER_MAX);

	return run(name, "erase", server, &b, err);
}
