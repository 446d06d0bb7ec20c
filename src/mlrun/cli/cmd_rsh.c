/* mlrun-rsh: runs a command on a worker, with the arguments of ssh(1). */
#include "cli/cli.h"
#include "cli/workers.h"

#include "base/account.h"

/* ssh(1), SYNOPSIS: the letters of options without and with a value. All that they say is about a
 * connection that there is not, but for -l, -t, -T and -n. */
static const char plain[] = "46AaCfGgKkMNnqsTtVvXxYy", valued[] = "BbcDEeFIiJLlmOoPpQRSWw";

struct call {
	const char *user, *host;
	char *const *command;
	int tty, no_tty, no_input;
};

static int usage(FILE *out)
{
	fputs("Usage: mlrun-rsh [OPTION...] [USER@]WORKER [COMMAND [ARG...]]\n"
	      "Run a command in a worker's container, as ssh runs one on a host; without one, a "
	      "shell.\n\n"
	      "WORKER is an id, or a host as `mlrun workers hosts` prints it, or a node with one "
	      "worker.\n"
	      "ssh's options are accepted; those about the connection have no effect. For Open "
	      "MPI:\n\n"
	      "  mpirun -H $(mlrun workers hosts) --mca plm_rsh_agent mlrun-rsh PROGRAM\n\n"
	      "mlrun-rsh(1) has more.\n",
		out);
	return out == stdout ? 0 : CLI_FAILED;
}

static void take_letter(struct call *c, char letter, const char *value)
{
	c->user = letter == 'l' ? value : c->user;
	c->tty = c->tty || letter == 't';
	c->no_tty = c->no_tty || letter == 'T';
	c->no_input = c->no_input || letter == 'n';
}

/* The word of options at *at; goes on to the next word if that is the value. */
static int take_options(char ***at, struct call *c, struct mlr_error *err)
{
	for (char *letter = **at + 1; *letter; letter++) {
		int takes = strchr(valued, *letter) != NULL;
		const char *value = !takes ? NULL : letter[1] ? letter + 1 : *++*at;

		if (!takes && !strchr(plain, *letter)) {
			mlr_fail(err, EINVAL, "unknown option '-%c'", *letter);
			return mlr_hint(err, "mlrun-rsh takes ssh's; --help tells more");
		}
		if (takes && !value)
			return mlr_fail(err, EINVAL, "-%c needs a value", *letter);
		take_letter(c, *letter, value);
		if (takes)
			break;
	}
	return 0;
}

/* "USER@HOST" */
static void take_host(struct call *c, char *word)
{
	char *at = strrchr(word, '@');

	if (at) {
		*at = '\0';
		c->user = word;
	}
	c->host = at ? at + 1 : word;
}

/* Options may follow the host, too, as in ssh; the command begins at the next word, or after "--".
 */
static int parse(char **argv, struct call *c, struct mlr_error *err)
{
	char **s = argv + 1;

	for (; *s && (!c->host || (*s)[0] == '-'); s++) {
		if (strcmp(*s, "--") == 0 && c->host) {
			s++;
			break;
		}
		if ((*s)[0] != '-')
			take_host(c, *s);
		else if (strcmp(*s, "--") != 0 && take_options(&s, c, err) < 0)
			return -EINVAL;
	}
	c->command = s;
	return c->host ? 0 : mlr_fail(err, EINVAL, "which worker?");
}

static int check_user(const struct call *c, struct mlr_error *err)
{
	auto_call(account_done) struct account me = { 0 };

	if (!c->user)
		return 0;
	account_find_user(geteuid(), &me);
	if (me.user && strcmp(me.user, c->user) == 0)
		return 0;
	return mlr_fail(
		err, EPERM, "a worker's only user is the one who started it, not '%s'", c->user);
}

static int find(const struct call *c, struct worker_list *l, struct mlr_error *err)
{
	const struct worker *w;
	int at = work_find(l, c->host, err);

	if (at < 0)
		return at;
	w = &l->v[at];
	if (w->status == WORKER_RUNNING)
		return at;
	mlr_fail(err, EAGAIN, "worker '%s' is %s", c->host, worker_status_names[w->status]);
	return worker_has_ended(w)
		? mlr_hint(err,
			  "mlrun workers logs %s has its output; mlrun workers start starts others",
			  w->id)
		: mlr_hint(err, "mlrun workers await %s waits until it is ready", w->id);
}

/* ssh hands its words, joined by blanks, to the user's shell. */
static void add_command(const struct call *c, struct strv *argv)
{
	auto_strv struct strv words = STRV_INIT;
	auto_free char *line = NULL;

	strv_add(argv, "sh");
	if (!*c->command)
		return;
	for (char *const *s = c->command; *s; s++)
		strv_add(&words, *s);
	line = strv_join(&words, words.n, " ");
	strv_add_words(argv, "-c", line);
}

static int become(const struct call *c, const struct worker *w, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT, env = STRV_INIT;
	int on_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);

	work_enter(w, !c->no_tty && on_terminal && (c->tty || !*c->command), &argv, &env);
	add_command(c, &argv);
	if (c->no_input && !freopen("/dev/null", "r", stdin))
		return mlr_fail_errno(err, "open '/dev/null'");
	execvpe(argv.v[0], strv_argv(&argv), strv_argv(&env));
	return mlr_fail_errno(err, "run '%s'", argv.v[0]);
}

static int run(const struct call *c, struct mlr_error *err)
{
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	int at = check_user(c, err);

	if (at == 0)
		at = workers_open(NULL, &st, &l, err);
	if (at == 0)
		at = find(c, &l, err);
	return at < 0 ? at : become(c, &l.v[at], err);
}

int cmd_rsh(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct call c = { 0 };

	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "--help") == 0)
		return usage(stdout);
	if (parse(argv, &c, &err) < 0 || run(&c, &err) < 0)
		return cli_fail_at(&err, "mlrun-rsh");
	return 0;
}
