/* mlrun gpu: a row and a file for each subcommand. */
#include "cli/commands.h"

static const struct command rows[] = {
	{ "cdi", cmd_gpu_cdi, NULL, "describe them for other container runtimes (CDI)" },
	{ "check", cmd_gpu_check, NULL, "tell whether an image would work with the GPUs here" },
	{ "list", cmd_gpu_list, NULL, "list this machine's GPUs, and who may use them" },
	{ "top", cmd_gpu_top, NULL, "show what the GPUs and processors do, again and again" },
};

static const struct commands commands = {
	.group = "gpu",
	.before = "Usage: mlrun gpu COMMAND [OPTION...] [ARG...]\n"
		  "Look at this machine's GPUs and their driver.\n\n",
	.after = "\n`mlrun gpu COMMAND --help` lists a command's options; mlrun-gpu(1) the rest.\n"
		 "Containers get GPUs by `mlrun exec --gpu`.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

int cmd_gpu(int argc, char **argv)
{
	return commands_run(&commands, argc, argv);
}
