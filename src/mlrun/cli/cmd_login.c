/* mlrun login, mlrun logout. */
#include "cli/cli.h"
#include "cli/options.h"

#include "oci/ref.h"
#include "registry/credential.h"
#include "registry/registry.h"

#include <termios.h>

#define SECRET_MAX 65536 /* bytes; some clouds' tokens have a few KiB */
#define LINE_MAX_  4096  /* bytes of a terminal's line (termios(3), canonical mode) */

struct args {
	struct cli_common common;
	struct cli_registry registry;
	const char *name; /* REGISTRY[/NAMESPACE] */
	const char *user;
	int password_stdin;
};

static const struct option_row login_options[] = {
	{ "username", 'u', "USER", 0, "your user name; asked for if missing", 1,
		OPT(struct args, user) },
	{ "password-stdin", 0, 0, 0, "read the password, or a token, from standard input", 1,
		OPT(struct args, password_stdin) },
	{ 0 },
};

#define SYNTAX                                                                 \
	.s.args_doc = "REGISTRY", .registry = offsetof(struct args, registry), \
	.s.operands = { OPT(struct args, name) }, .s.needed = 1,               \
	.s.missing = "a registry is missing; Docker Hub is docker.io",         \
	.s.surplus = "one registry at a time"

static const struct cli_syntax login_syntax = {
	SYNTAX,
	.s.options = login_options,
	.s.doc = "Check a user name and password at a registry, and keep them for pulls.",
};
static const struct cli_syntax logout_syntax = {
	SYNTAX,
	.s.doc = "Forget the user name and the password for a registry.",
};

/*
 * The registry's name as the key of its credentials: "quay.io", "quay.io/org". The rules of image
 * names decide whether the first part is a registry.
 */
static int parse_name(const char *text, struct oci_ref *ref, char **key, struct mlr_error *err)
{
	const char *s = text;
	auto_free char *name = NULL, *as_image = NULL;
	size_t n;

	if (strncasecmp(s, "https://", 8) == 0)
		s += 8;
	n = strlen(s);
	while (n > 0 && s[n - 1] == '/')
		n--;
	name = xstrndup(s, n);
	as_image = xasprintf("%s/x", name);
	if (oci_ref_parse(as_image, ref, NULL) < 0 ||
		strncmp(ref->registry, name, strcspn(name, "/")) != 0 ||
		strlen(ref->registry) != strcspn(name, "/")) {
		mlr_fail(err, EINVAL, "'%s' is not a registry's name", text);
		return mlr_hint(err, "HOST or HOST:PORT, such as quay.io; Docker Hub is docker.io");
	}
	ref->repository[0] = '\0'; /* request a token for the registry as such */
	*key = take_ptr(&name);
	return 0;
}

/* Is the answer shown on the terminal? */
enum echo { HIDDEN, SHOWN };

static void wake(int sig)
{
	(void)sig; /* only interrupts read(2) */
}

static int read_line(int tty, char **ret, struct mlr_error *err)
{
	char line[LINE_MAX_ + 1];
	ssize_t n = read(tty, line, LINE_MAX_);

	if (n < 0 && errno != EINTR)
		return mlr_fail_errno(err, "read from the terminal");
	if (n <= 0)
		return mlr_fail(err, ECANCELED, "interrupted");
	line[n - (line[n - 1] == '\n')] = '\0';
	*ret = xstrdup(line);
	explicit_bzero(line, sizeof(line));
	return 0;
}

/*
 * Ask on the terminal, wherever stdin and stdout lead. The echo is restored whatever ends the
 * question.
 *
 * Returns 0 and the answer, without its newline, to free(); -ENXIO without a terminal; -ECANCELED
 * on end of file and Control-C.
 */
static int ask(const char *prompt, enum echo echo, char **ret, struct mlr_error *err)
{
	auto_close int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction woken = { .sa_handler = wake }, was[ARRAY_LEN(signals)];
	struct termios before, quiet;
	int r;

	if (tty < 0 || tcgetattr(tty, &before) < 0)
		return mlr_fail(err, ENXIO, "no terminal to ask on");
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		sigaction(signals[i], &woken, &was[i]);
	/* Switch the echo off before the question appears, and drop no input: the answer may come
	 * at once. */
	if (echo == HIDDEN)
		tcsetattr(tty, TCSAFLUSH, &quiet);
	file_write_all(tty, prompt, strlen(prompt));
	r = read_line(tty, ret, err);
	if (echo == HIDDEN) {
		tcsetattr(tty, TCSAFLUSH, &before);
		file_write_all(tty, "\n", 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		sigaction(signals[i], &was[i], NULL);
	return r;
}

/* Read all of standard input, without the final newline. */
static int read_stdin(char **ret, struct mlr_error *err)
{
	char *text = xcalloc(1, SECRET_MAX + 1);
	ssize_t n = file_read_full(STDIN_FILENO, text, SECRET_MAX + 1);

	if (n > 0 && n <= SECRET_MAX) {
		n -= text[n - 1] == '\n';
		n -= n > 0 && text[n - 1] == '\r';
		text[n] = '\0';
	}
	if (n > 0 && n <= SECRET_MAX && strlen(text) == (size_t)n) {
		*ret = text;
		return 0;
	}
	credential_free_secret(text);
	if (n < 0)
		return mlr_result(err, (int)n, "read the password");
	return mlr_fail(err, EINVAL,
		n == 0 ? "standard input holds no password"
		       : "the text on standard input is not a password");
}

/* Get the user's name and password. */
static int gather(
	const struct args *a, const char *key, struct credential *c, struct mlr_error *err)
{
	auto_free char *who = xasprintf("user name for %s: ", key);
	auto_free char *what = NULL;
	int r = 0;

	if (a->password_stdin && !a->user)
		return mlr_fail(err, EINVAL, "--password-stdin needs -u USER");
	if (a->user)
		c->user = xstrdup(a->user);
	else
		r = ask(who, SHOWN, &c->user, err);
	if (r == 0 && (!*c->user || strchr(c->user, ':')))
		return mlr_fail(err, EINVAL, "'%s' cannot be a user name", c->user);
	if (r == 0 && a->password_stdin)
		return read_stdin(&c->password, err);
	if (r == 0) {
		what = xasprintf("password for %s at %s: ", c->user, key);
		r = ask(what, HIDDEN, &c->password, err);
	}
	if (r == -ENXIO)
		mlr_hint(err, "mlrun login -u USER --password-stdin %s <FILE", key);
	return r;
}

/* Warn of a place that ends with the session and that other nodes do not see. */
static void tell_kept(const char *key, const char *user, const char *where)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	mlr_info("logged in to '%s' as '%s'; kept in '%s'", key, user, where);
	if (runtime && *runtime && strncmp(where, runtime, strlen(runtime)) == 0)
		mlr_info(
			"the credentials are gone when you log out of this machine, and no other node sees "
			"them; --authfile and REGISTRY_AUTH_FILE name another file");
}

static int login(struct args *a, struct mlr_error *err)
{
	auto_call(credential_done) struct credential c = { 0 };
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_free char *key = NULL, *where = NULL;
	auto_registry struct registry *reg = NULL;
	int asked = 0;

	TRY(cli_registry_load(&a->registry, a->name, err));
	TRY(parse_name(a->name, &ref, &key, err));
	TRY(gather(a, key, &c, err));
	reg = registry_new(&ref, &a->registry.options);
	TRY(registry_login(reg, c.user, c.password, &asked, err));
	TRY(credential_store(a->registry.options.authfile, key, &c, &where, err));
	if (!asked)
		mlr_warning("'%s' asked for no password, so this one was not tried", key);
	tell_kept(key, c.user, where);
	return 0;
}

static int logout(struct args *a, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_free char *key = NULL, *where = NULL;

	TRY(cli_registry_load(&a->registry, a->name, err));
	TRY(parse_name(a->name, &ref, &key, err));
	TRY(credential_erase(a->registry.options.authfile, key, &where, err));
	mlr_info("logged out of '%s'; removed from '%s'", key, where);
	return 0;
}

static int run(const struct cli_syntax *syntax, int (*act)(struct args *a, struct mlr_error *err),
	int argc, char **argv)
{
	static struct args a = { .registry = CLI_REGISTRY_INIT };
	struct mlr_error err = MLR_ERROR_INIT;

	cli_options_parse(argc, argv, syntax, &a);
	return act(&a, &err) < 0 ? cli_fail_at(&err, "%s '%s'", argv[0], a.name) : 0;
}

int cmd_login(int argc, char **argv)
{
	return run(&login_syntax, login, argc, argv);
}

int cmd_logout(int argc, char **argv)
{
	return run(&logout_syntax, logout, argc, argv);
}
