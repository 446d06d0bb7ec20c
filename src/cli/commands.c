#include "cli/commands.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void print_help(const struct commands *c, FILE *out)
{
	fputs(c->before, out);
	for (size_t i = 0; i < c->n; i++)
		if (c->rows[i].help)
			fprintf(out, "  %-16s %s\n", c->rows[i].name, c->rows[i].help);
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

int commands_run(const struct commands *c, int argc, char **argv)
{
	struct mlr_error err;

	if (argc < 2 || is_help(argv[1])) {
		print_help(c, argc < 2 ? stderr : stdout);
		return argc < 2 ? CLI_FAILED : 0;
	}
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(argv[1], c->rows[i].name) == 0)
			return run_row(c, &c->rows[i], argc, argv);
	mlr_fail(&err, EINVAL, "%s%s'%s' is not a command", c->group ? c->group : "",
		c->group ? ": " : "", argv[1]);
	mlr_hint(
		&err, "mlrun %s%s--help lists them", c->group ? c->group : "", c->group ? " " : "");
	return cli_fail(&err);
}
