/* mlrun's main: finds the command's row and calls it, or becomes the program that holds it. */
#include "cli/cli.h"

#include "base/cleanup.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* One row a command. A row without a function lives in another program of ours: PROGRAM COMMAND
 * ARGS... */
static const struct command {
	const char *name;
	cli_command run;
	const char *program;
	const char *help; /* NULL: an alias, not listed */
} commands[] = {
	{ "pull", NULL, "mlrun-pull", "bring an image from a registry into the store" },
	{ "import", NULL, "mlrun-pull", "bring an image from a file into the store" },
	{ "export", NULL, "mlrun-pull", "write an image from the store into a file" },
	{ "login", NULL, "mlrun-pull", "keep a user name and a password for a registry" },
	{ "logout", NULL, "mlrun-pull", "forget them" },
	{ "tags", NULL, "mlrun-pull", "list the tags that a registry has of an image" },
	{ "exec", cmd_exec, NULL, "run a command in an image" },
	{ "run", cmd_exec, NULL, NULL },
	{ "shell", cmd_shell, NULL, "start an interactive shell in an image" },
	{ "ps", cmd_ps, NULL, "list the containers that run on this node" },
	{ "images", cmd_images, NULL, "list the images in the store" },
	{ "inspect", cmd_inspect, NULL, "show what an image is" },
	{ "containers", cmd_containers, NULL, "list what exec --write keeps, and remove it" },
	{ "commit", NULL, "mlrun-pull", "make an image of what exec --write kept" },
	{ "rm", cmd_rm, NULL, "remove images from the store" },
	{ "prune", cmd_prune, NULL, "remove what is not used any more" },
	{ "store", NULL, "mlrun-pull", "verify the store, and repair it" },
	{ "tag", cmd_tag, NULL, "give an image in the store another name" },
	{ "gpu", cmd_gpu, NULL, "list the GPUs, and who may use them" },
	{ "config", cmd_config, NULL, "show the settings that hold and where they come from" },
	{ "doctor", cmd_doctor, NULL, "look whether this machine serves mlrun, and how to mend it" },
	{ "profile", cmd_profile, NULL, "record this machine, its GPUs and their driver" },
	{ "parse-reference", cmd_parse_reference, NULL,
		"print the parts of an image name as JSON" },
};

static void print_help(FILE *out)
{
	fprintf(out,
		"Usage: mlrun COMMAND [OPTION...] [ARG...]\n"
		"Run container images on an HPC node or a workstation, without root and without a daemon.\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (commands[i].help)
			fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].help);
	fprintf(out,
		"\n`mlrun COMMAND --help` tells a command's options; mlrun(1), mlrun-pull(1) and\n"
		"mlrun-exec(1) the rest. `mlrun --version` tells the version.\n");
}

int main(int argc, char **argv)
{
	struct mlr_error err;

	cli_init();
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0 ||
		strcmp(argv[1], "-h") == 0) {
		print_help(argc < 2 ? stderr : stdout);
		return argc < 2 ? CLI_FAILED : 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		argp_program_version_hook(stdout, NULL);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (commands[i].run)
			return commands[i].run(argc - 1, argv + 1);
		return cli_become(commands[i].program, argv);
	}
	mlr_fail(&err, EINVAL, "'%s' is not a command", argv[1]);
	mlr_hint(&err, "mlrun --help lists them");
	return cli_fail(&err);
}
