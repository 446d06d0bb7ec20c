/* mlrun gpu: what can be done with GPUs, one row and one file a subcommand. */
#include "cli/cli.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A function is called with argv[0] "gpu NAME", which its messages begin with. */
static const struct row {
	const char *name;
	cli_command run;
	const char *help; /* NULL: not listed */
} rows[] = {
	{ "cdi", cmd_gpu_cdi, "describe them for other container runtimes (CDI)" },
	{ "check", cmd_gpu_check, "tell whether an image would work with the GPUs here" },
	{ "hook", cmd_gpu_hook, NULL },
	{ "list", cmd_gpu_list, "list this machine's GPUs, and who may use them" },
	{ "top", cmd_gpu_top, "show what the GPUs and the processors do, again and again" },
};

static void print_help(FILE *out)
{
	fprintf(out,
		"Usage: mlrun gpu COMMAND [OPTION...] [ARG...]\n"
		"Look at this machine's GPUs and their driver.\n\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].help)
			fprintf(out, "  %-16s %s\n", rows[i].name, rows[i].help);
	fprintf(out,
		"\n`mlrun gpu COMMAND --help` tells a command's options; mlrun-gpu(1) the rest.\n"
		"Containers get GPUs by `mlrun exec --gpu`.\n");
}

static int is_help(const char *word)
{
	static const char *const words[] = { "--help", "-?", "-h", "help", "--usage" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(word, words[i]) == 0)
			return 1;
	return 0;
}

int cmd_gpu(int argc, char **argv)
{
	char name[64];
	struct mlr_error err;

	if (argc < 2 || is_help(argv[1])) {
		print_help(argc < 2 ? stderr : stdout);
		return argc < 2 ? CLI_FAILED : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(argv[1], rows[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "gpu %s", rows[i].name);
		argv[1] = name;
		return rows[i].run(argc - 1, argv + 1);
	}
	mlr_fail(&err, EINVAL, "gpu: '%s' is not a command", argv[1]);
	mlr_hint(&err, "mlrun gpu --help lists them");
	return cli_fail(&err);
}
