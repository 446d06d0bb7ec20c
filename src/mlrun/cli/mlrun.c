/* mlrun's main: finds the command's row and calls it, or becomes the program that has it. */
#include "cli/commands.h"

#include "base/cleanup.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

static const struct command rows[] = {
	{ "pull", NULL, "mlrun-pull", "bring an image from a registry into the store" },
	{ "import", NULL, "mlrun-pull", "bring an image from a file into the store" },
	{ "export", NULL, "mlrun-pull", "write an image from the store into a file" },
	{ "login", NULL, "mlrun-pull", "keep a user name and a password for a registry" },
	{ "logout", NULL, "mlrun-pull", "forget them" },
	{ "tags", NULL, "mlrun-pull", "list the tags that a registry has of an image" },
	{ "exec", cmd_exec, NULL, "run a command in an image" },
	{ "run", cmd_exec, NULL, "the same, as Docker's users type it" },
	{ "shell", cmd_shell, NULL, "start an interactive shell in an image" },
	{ "ps", cmd_ps, NULL, "list the containers that run on this node" },
	{ "images", cmd_images, NULL, "list the images in the store" },
	{ "inspect", cmd_inspect, NULL, "show what an image is" },
	{ "containers", cmd_containers, NULL, "list what exec --write keeps, and remove it" },
	{ "commit", NULL, "mlrun-pull", "make an image of what exec --write kept" },
	{ "rm", cmd_rm, NULL, "remove images from the store" },
	{ "rmi", cmd_rm, NULL, NULL },
	{ "prune", cmd_prune, NULL, "remove what is not used any more" },
	{ "store", NULL, "mlrun-pull", "verify the store, and repair it" },
	{ "tag", cmd_tag, NULL, "give an image in the store another name" },
	{ "gpu", cmd_gpu, NULL, "list the GPUs, and who may use them" },
	{ "config", cmd_config, NULL, "show the settings that hold and where they come from" },
	{ "doctor", cmd_doctor, NULL,
		"look whether this machine serves mlrun, and how to mend it" },
	{ "profile", cmd_profile, NULL, "record this machine, its GPUs and their driver" },
	{ "parse-reference", cmd_parse_reference, NULL,
		"print the parts of an image name as JSON" },
};

static const struct commands commands = {
	.before =
		"Usage: mlrun COMMAND [OPTION...] [ARG...]\n"
		"Run container images on an HPC node or a workstation, without root and without a "
		"daemon.\n\n",
	.after = "\n`mlrun COMMAND --help` lists a command's options; mlrun(1), mlrun-pull(1) and\n"
		 "mlrun-exec(1) the rest. `mlrun --version` prints the version.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

int main(int argc, char **argv)
{
	cli_init();
	if (argc > 1 &&
		(strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
			strcmp(argv[1], "version") == 0)) {
		argp_program_version_hook(stdout, NULL);
		return 0;
	}
	return commands_run(&commands, argc, argv);
}
