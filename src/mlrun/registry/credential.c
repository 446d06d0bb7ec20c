#include "registry/credential.h"

#include "base/home.h"
#include "base/program.h"
#include "base/spawn.h"
#include "oci/json.h"
#include "registry/authfile.h"
#include "registry/buffer.h"
#include "registry/http.h"

#include <poll.h>
#include <sys/file.h>

#define LOCK_TRIES  500 /* ten seconds */
#define LOCK_NAP_MS 20

/* --- credential helpers ------------------------------------------------------------ */

/*
 * Runs credential helpers: programs docker-credential-NAME on the PATH that keep secrets elsewhere.
 * They speak JSON on standard input and output (github.com/docker/docker-credential-helpers,
 * "Development"). Secrets are never arguments. Each call has a time limit of a minute.
 */

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
		TRY(r);
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

/* Get credentials. Returns 1; 0 if the helper has none for that server; -ENOENT if there is no such
 * program; -ETIMEDOUT; -EIO with the helper's message. */
static int helper_get(
	const char *name, const char *server, struct credential *ret, struct mlr_error *err)
{
	auto_call(drop_answer) struct buffer b = BUFFER_INIT(ANSWER_MAX);
	int r = run(name, "get", server, &b, err);

	if (r == -EIO && b.data && strcasestr(b.data, "credentials not found"))
		return 0;
	return r < 0 ? r : read_credential(name, &b, ret, err);
}

/* Store or erase credentials. Return 0, or as above. */
static int helper_store(
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

static int helper_erase(const char *name, const char *server, struct mlr_error *err)
{
	auto_call(drop_answer) struct buffer b = BUFFER_INIT(ANSWER_MAX);

	return run(name, "erase", server, &b, err);
}

void credential_free_secret(char *s)
{
	if (s)
		explicit_bzero(s, strlen(s));
	free(s);
}

void credential_done(struct credential *c)
{
	free(c->user);
	credential_free_secret(c->password);
	credential_free_secret(c->identity_token);
	free(c->origin);
	*c = (struct credential){ 0 };
}

/* The single file that the user named, or NULL. */
static const char *named_file(const char *authfile)
{
	const char *env = getenv("REGISTRY_AUTH_FILE");

	if (authfile)
		return authfile;
	return env && *env ? env : NULL;
}

/* podman's files, the session's first if there is a session. */
static void own_files(struct strv *ret)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	auto_free char *config = home_xdg_dir("XDG_CONFIG_HOME", ".config", NULL);
	struct stat sb;

	if (runtime && runtime[0] == '/' && stat(runtime, &sb) == 0)
		strv_addf(ret, "%s/containers/auth.json", runtime);
	if (config)
		strv_addf(ret, "%s/containers/auth.json", config);
}

static char *docker_file(void)
{
	const char *docker = getenv("DOCKER_CONFIG");
	auto_free char *home = NULL;

	if (docker && *docker)
		return xasprintf("%s/config.json", docker);
	home = home_dir(NULL);
	return home ? xasprintf("%s/.docker/config.json", home) : NULL;
}

/* *is_open: other users may read it. Returns 1, 0 if there is no such file, or -errno. */
static int read_file(const char *path, struct authfile **ret, int *is_open, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *text = NULL;
	struct stat sb;
	ssize_t n;
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "credentials '%s'", path);
	text = xcalloc(1, AUTHFILE_MAX + 2);
	n = file_read_full(fd, text, AUTHFILE_MAX + 1);
	if (n < 0)
		r = mlr_fail(err, (int)-n, "%s", strerror((int)-n));
	else
		r = authfile_parse(text, (size_t)n, ret, err);
	explicit_bzero(text, n > 0 ? (size_t)n : 0);
	free(text);
	if (r < 0)
		mlr_wrap(err, "credentials '%s'", path);
	*is_open = S_ISREG(sb.st_mode) && (sb.st_mode & (S_IRGRP | S_IROTH));
	return r < 0 ? r : 1;
}

/* Ask a helper. A missing helper for all registries may be left over from the machine where the
 * file was made, and is skipped; a missing helper for this registry is an error. */
static int ask_helper(const struct authfile *f, const char *path, const char *registry,
	struct credential *ret, struct mlr_error *err)
{
	int is_default, r;
	const char *helper = authfile_helper(f, registry, &is_default);

	if (!helper)
		return 0;
	r = helper_get(helper, authfile_docker_key(registry), ret, err);
	if (r == 0 && strcmp(authfile_docker_key(registry), registry) != 0)
		r = helper_get(helper, registry, ret, err);
	if (r == -ENOENT && is_default) {
		mlr_warning("'%s' names the credential helper 'docker-credential-%s', which is not "
			    "here; ignoring it",
			path, helper);
		return 0;
	}
	if (r == 1)
		ret->origin = xasprintf("docker-credential-%s", helper);
	if (r < 0)
		mlr_wrap(err, "credentials '%s'", path);
	return r;
}

static int find_in(const char *path, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err)
{
	auto_call(authfile_cleanup) struct authfile *f = NULL;
	auto_call(credential_done) struct credential c = { 0 };
	int is_open = 0, r = read_file(path, &f, &is_open, err);

	if (r <= 0)
		return r;
	r = ask_helper(f, path, registry, ret, err);
	if (r != 0)
		return r;
	r = authfile_find(f, registry, repository, &c, err);
	if (r < 0)
		mlr_wrap(err, "credentials '%s'", path);
	if (r <= 0)
		return r;
	if (is_open) {
		mlr_fail(err, EACCES, "credentials '%s': others than their owner may read them",
			path);
		return mlr_hint(err, "chmod 600 '%s'", path);
	}
	c.origin = xstrdup(path);
	*ret = take_struct(&c, { 0 });
	return 1;
}

int credential_find(const char *authfile, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err)
{
	const char *named = named_file(authfile);
	auto_strv struct strv files = STRV_INIT;
	char *docker;
	int r = 0;

	if (named) {
		if (authfile && access(authfile, F_OK) < 0)
			return mlr_fail_errno(err, "credentials '%s'", authfile);
		r = find_in(named, registry, repository, ret, err);
	} else {
		own_files(&files);
		docker = docker_file();
		if (docker)
			strv_take(&files, docker);
		for (size_t i = 0; i < files.n && r == 0; i++)
			r = find_in(files.v[i], registry, repository, ret, err);
	}
	if (r == 1)
		mlr_debug("credentials for '%s' are those of '%s' in '%s'", registry, ret->user,
			ret->origin);
	return r;
}

/* Resolve symlinks, so that the link stays and its target is changed. */
static char *resolve(const char *path)
{
	char *real = realpath(path, NULL);

	return real ? real : xstrdup(path);
}

/*
 * Lock a file against lost updates. The lock is on the directory, since the file is replaced. Goes
 * on without a lock if locks are unsupported (NFS) or it times out. Returns a descriptor to close,
 * or -1.
 */
static int lock_file(const char *path)
{
	auto_free char *real = resolve(path), *dir = path_dir(real);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = -1;

	for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		r = flock(fd, LOCK_EX | LOCK_NB);
		if (r == 0 || errno != EWOULDBLOCK)
			break;
		mlr_sleep_ms(LOCK_NAP_MS);
	}
	if (r < 0)
		mlr_debug("'%s' is not locked: %s", dir, strerror(errno));
	return fd;
}

static int make_dir(const char *path, struct mlr_error *err)
{
	auto_free char *real = resolve(path), *dir = path_dir(real);

	return file_mkdir_p(AT_FDCWD, dir, 0700, err);
}

static int write_file(const char *path, const struct authfile *f, struct mlr_error *err)
{
	auto_free char *real = resolve(path);
	char *text = authfile_text(f);
	int r = file_replace(AT_FDCWD, real, text, strlen(text), 0600, err);

	credential_free_secret(text);
	return r;
}

/* The registry of a key: "quay.io" of "quay.io/org". To free(). */
static char *registry_of(const char *key)
{
	return xstrndup(key, strcspn(key, "/"));
}

/* Store into the file, whose lock is held, or into the helper that the file names. */
static int store_in(const char *path, const char *key, const struct credential *c, char **where,
	struct mlr_error *err)
{
	auto_call(authfile_cleanup) struct authfile *f = NULL;
	auto_free char *registry = registry_of(key);
	const char *helper;
	int is_open, is_default, r = read_file(path, &f, &is_open, err);

	if (r == 0)
		r = authfile_parse("", 0, &f, err);
	TRY(r);
	helper = authfile_helper(f, registry, &is_default);
	if (helper) {
		*where = xasprintf("docker-credential-%s", helper);
		return helper_store(helper, authfile_docker_key(registry), c, err);
	}
	authfile_set(f, key, c);
	r = write_file(path, f, err);
	if (r < 0) {
		mlr_wrap(err, "store credentials in '%s'", path);
		return r;
	}
	*where = xstrdup(path);
	return 0;
}

int credential_store(const char *authfile, const char *key, const struct credential *c,
	char **where, struct mlr_error *err)
{
	const char *path = named_file(authfile);
	auto_strv struct strv own = STRV_INIT;
	auto_close int lock = -1;
	int r;

	own_files(&own);
	if (!path && own.n == 0)
		return mlr_fail(err, ENOENT, "no home directory to keep credentials in");
	if (!path)
		path = own.v[0];
	r = make_dir(path, err);
	if (r < 0) {
		mlr_wrap(err, "store credentials in '%s'", path);
		return r;
	}
	lock = lock_file(path);
	return store_in(path, key, c, where, err);
}

/* Returns 1 if something was removed, else 0. */
static int erase_in(const char *path, const char *key, char **where, struct mlr_error *err)
{
	auto_call(authfile_cleanup) struct authfile *f = NULL;
	auto_free char *registry = registry_of(key);
	int is_open, is_default, r = read_file(path, &f, &is_open, err);
	const char *helper;

	if (r <= 0)
		return r;
	helper = authfile_helper(f, registry, &is_default);
	if (helper) {
		r = helper_erase(helper, authfile_docker_key(registry), err);
		if (r == 0)
			*where = xasprintf("docker-credential-%s", helper);
		return r < 0 ? r : 1;
	}
	if (authfile_unset(f, key) == 0)
		return 0;
	r = write_file(path, f, err);
	if (r < 0) {
		mlr_wrap(err, "remove credentials from '%s'", path);
		return r;
	}
	*where = xstrdup(path);
	return 1;
}

/* We have no credentials to remove. Say so if Docker's file has some, which only Docker may
 * change. */
static int tell_none(const char *key, struct mlr_error *err)
{
	auto_call(credential_done) struct credential c = { 0 };
	auto_free char *registry = registry_of(key);

	mlr_fail(err, ENOENT, "not logged in to '%s'", key);
	if (credential_find(NULL, registry, "", &c, NULL) == 1)
		mlr_hint(err, "there are credentials in '%s': docker logout removes those",
			c.origin);
	return -ENOENT;
}

int credential_erase(const char *authfile, const char *key, char **where, struct mlr_error *err)
{
	const char *named = named_file(authfile);
	auto_strv struct strv files = STRV_INIT;
	int r = 0, gone = 0;

	if (named)
		strv_add(&files, named);
	else
		own_files(&files);
	for (size_t i = 0; i < files.n; i++) {
		auto_free char *one = NULL;
		auto_close int lock = -1;

		lock = lock_file(files.v[i]);
		r = erase_in(files.v[i], key, &one, err);
		TRY(r);
		if (r == 1 && !gone)
			*where = take_ptr(&one);
		gone |= r;
	}
	return gone ? 0 : tell_none(key, err);
}
