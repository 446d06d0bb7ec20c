#include "cli/commands.h"

#include "cli/foreign.h"

#include "base/spelling.h"

static void print_help(const struct commands *c, FILE *out)
{
	fputs(c->before, out);
	for (size_t i = 0; i < c->n; i++) {
		if (c->rows[i].title)
			fprintf(out, "\n%s:\n", c->rows[i].title);
		if (c->rows[i].help)
			fprintf(out, "  %-16s %s\n", c->rows[i].name, c->rows[i].help);
	}
	fputs(c->after, out);
}

static int is_help(const char *word)
{
	static const char *const words[] = { "--help", "-?", "-h", "help", "--usage" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(word, words[i]) == 0)
			return 1;
	return 0;
}

static int run_row(const struct commands *c, const struct command *row, int argc, char **argv)
{
	char name[64];

	if (row->program)
		return cli_become(row->program, argv);
	if (c->group) {
		snprintf(name, sizeof(name), "%s %s", c->group, row->name);
		argv[1] = name;
	}
	return row->run(argc - 1, argv + 1);
}

static const struct command *find(const struct commands *c, const char *word)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(word, c->rows[i].name) == 0)
			return &c->rows[i];
	return NULL;
}

/* Refuse an option before the command: "mlrun -v pull x". */
static int refuse_option(const struct commands *c, char **argv)
{
	const struct command *row = NULL;
	struct mlr_error err;

	mlr_fail(&err, EINVAL, "option '%s' must follow the command", argv[1]);
	for (char **s = argv + 2; *s && !row; s++)
		row = find(c, *s);
	mlr_hint(&err, "options follow the command: mlrun %s OPTION...; --verbose shows every step",
		row ? row->name : "COMMAND");
	return cli_fail(&err);
}

static int refuse_word(const struct commands *c, const char *word, const char *next)
{
	const char *group = c->group ? c->group : "", *gap = c->group ? " " : "";
	const char *instead = c->group && !c->knows_foreign ? NULL : foreign_command(word, next);
	struct spelling s = spelling_of(word, strlen(word));
	struct mlr_error err;

	for (size_t i = 0; i < c->n; i++)
		spelling_try(&s, c->rows[i].name);
	mlr_fail(&err, EINVAL, "%s%s'%s' is not a command", group, c->group ? ": " : "", word);
	if (instead)
		mlr_hint(&err, "%s", instead);
	else if (s.near)
		mlr_hint(&err, "is %s%s%s meant? mlrun %s%s--help lists them", group, gap, s.near,
			group, gap);
	else
		mlr_hint(&err, "mlrun %s%s--help lists them", group, gap);
	return cli_fail(&err);
}

int commands_run(const struct commands *c, int argc, char **argv)
{
	static char help[] = "--help";
	const struct command *row;

	if (argc > 2 && strcmp(argv[1], "help") == 0) { /* "help pull" is "pull --help" */
		argv[1] = argv[2];
		argv[2] = help;
	}
	if (argc < 2 || is_help(argv[1])) {
		print_help(c, argc < 2 ? stderr : stdout);
		return argc < 2 ? CLI_FAILED : 0;
	}
	row = find(c, argv[1]);
	if (row)
		return run_row(c, row, argc, argv);
	if (argv[1][0] == '-' && !c->group)
		return refuse_option(c, argv);
	return refuse_word(c, argv[1], argv[2]);
}
