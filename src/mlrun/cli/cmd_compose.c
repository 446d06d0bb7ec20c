/* mlrun compose: the commands of docker compose, by those of mlrun. */
#include "cli/cli.h"
#include "cli/foreign.h"
#include "cli/options.h"
#include "cli/project.h"
#include "cli/services.h"

struct args {
	struct cli_common common;
	struct project_wish w;
	struct strv words;
};

/* What a command gets of the project. */
enum gets {
	FILES, /* the options that name its files */
	NAME,  /* --project */
	NOTHING,
};

static const struct row {
	const char *word, *is; /* mlrun's words */
	cli_command run;
	enum gets gets;
} rows[] = {
	{ "up", "up", cmd_up, FILES },
	{ "start", "up --detach", cmd_up, FILES },
	{ "config", "up --config", cmd_up, FILES },
	{ "convert", "up --config", cmd_up, FILES },
	{ "build", "up --no-start --build", cmd_up, FILES },
	{ "pull", "up --no-start --pull=always", cmd_up, FILES },
	{ "create", "up --no-start", cmd_up, FILES },
	{ "down", "down", cmd_down, FILES },
	{ "ps", "ps", cmd_ps, NAME },
	{ "top", "ps", cmd_ps, NAME },
	{ "logs", "logs", cmd_logs, NAME },
	{ "stop", "stop", cmd_stop, NAME },
	{ "kill", "kill", cmd_kill, NAME },
	{ "restart", "restart", cmd_restart, NAME },
	{ "ls", "ps --all", cmd_ps, NOTHING },
	{ "images", "images", cmd_images, NOTHING },
};

static void add_all(struct strv *to, const char *option, const struct strv *values)
{
	for (size_t i = 0; i < values->n; i++)
		strv_addf(to, "--%s=%s", option, values->v[i]);
}

static void add_files(const struct args *a, struct strv *to)
{
	add_all(to, "file", &a->w.files);
	add_all(to, "env-file", &a->w.env_files);
	add_all(to, "profile", &a->w.profiles);
	if (a->w.directory)
		strv_addf(to, "--project-directory=%s", a->w.directory);
	if (a->w.name)
		strv_addf(to, "--project=%s", a->w.name);
}

static int run_row(const struct row *row, const struct args *a)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *is = xstrdup(row->is), *project = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	char *rest = is, *word;

	while ((word = strsep(&rest, " ")))
		strv_add(&argv, word);
	if (a->common.store)
		strv_addf(&argv, "--store=%s", a->common.store);
	if (row->gets == FILES)
		add_files(a, &argv);
	if (row->gets == NAME) {
		project = project_name(&a->w, &err);
		if (!project)
			return cli_fail_at(&err, "compose");
		strv_addf(&argv, "--project=%s", project);
	}
	strv_add_all(&argv, &a->words);
	return row->run((int)argv.n, argv.v);
}

/* A command in a service, of which exec's options are not compose's. */
static int run_in_service(struct args *a, const char *name,
	int (*run)(struct project_wish *w, const char *store, int argc, char **argv))
{
	auto_strv struct strv argv = STRV_INIT;

	strv_add(&argv, name);
	strv_add_all(&argv, &a->words);
	return run(&a->w, a->common.store, (int)argv.n, argv.v);
}

static int refuse(const char *word)
{
	struct mlr_error err = MLR_ERROR_INIT;

	mlr_fail(&err, EINVAL, "compose: unknown command '%s'", word);
	mlr_hint(&err, "%s", foreign_command("compose", word));
	return cli_fail(&err);
}

/* The command, and all that follows it. */
static void take_words(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	for (int i = state->next - 1; i < state->argc; i++)
		strv_add(&a->words, state->argv[i]);
	state->next = state->argc;
}

int cmd_compose(int argc, char **argv)
{
	/* The hidden ones change nothing. */
	static const struct option_row options[] = { PROJECT_ROWS(struct args),
		{ "ansi", 0, "WHEN", OPTION_HIDDEN, NULL },
		{ "progress", 0, "HOW", OPTION_HIDDEN, NULL },
		{ "parallel", 0, "N", OPTION_HIDDEN, NULL },
		{ "compatibility", 0, NULL, OPTION_HIDDEN, NULL }, { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.in_order = 1,
		.s.args_doc = "COMMAND [ARG...]",
		.s.doc =
			"The commands of docker compose, by those of mlrun: up, down, start, stop, restart, kill, "
			"ps, top, ls, logs, exec, run, config, build, pull, create, images.",
		.s.operands = { OPT_CALL(take_words) },
		.s.needed = 1,
		.s.missing = "a command is missing: mlrun compose up" };
	static struct args a;
	auto_free char *word = NULL;
	int status = -1;

	cli_options_parse(argc, argv, &syntax, &a);
	word = a.words.v[0];
	memmove(a.words.v, a.words.v + 1, a.words.n * sizeof(*a.words.v));
	a.words.n--;
	for (size_t i = 0; i < ARRAY_LEN(rows) && status < 0; i++)
		if (strcmp(word, rows[i].word) == 0)
			status = run_row(&rows[i], &a);
	if (status >= 0)
		return status;
	return strcmp(word, "exec") == 0   ? run_in_service(&a, "compose exec", compose_exec)
		: strcmp(word, "run") == 0 ? run_in_service(&a, "compose run", compose_run)
					   : refuse(word);
}
