/* mlrun's main: finds the command's row and calls it, or becomes the program that has it. */
#include "cli/commands.h"

#include "base/cleanup.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

static const struct command rows[] = {
	{ "pull", NULL, "mlrun-pull", "fetch an image from a registry into the store" },
	{ "import", NULL, "mlrun-pull", "copy an image from a file into the store" },
	{ "export", NULL, "mlrun-pull", "write an image from the store into a file" },
	{ "build", NULL, "mlrun-pull", "make an image by a Dockerfile" },
	{ "push", NULL, "mlrun-pull", "write an image from the store to a registry" },
	{ "manifest", NULL, "mlrun-pull", "let one name stand for images of several platforms" },
	{ "login", NULL, "mlrun-pull", "keep a user name and password for a registry" },
	{ "logout", NULL, "mlrun-pull", "forget them" },
	{ "tags", NULL, "mlrun-pull", "list an image's tags in its registry" },
	{ "exec", cmd_exec, NULL, "run a command in an image" },
	{ "run", cmd_exec, NULL, "the same as exec, as in Docker" },
	{ "shell", cmd_shell, NULL, "start an interactive shell in an image" },
	{ "oci", cmd_oci, NULL, "run OCI bundles, as runc and crun do" },
	{ "ps", cmd_ps, NULL, "list the running containers on this node" },
	{ "images", cmd_images, NULL, "list the images in the store" },
	{ "inspect", cmd_inspect, NULL, "describe an image" },
	{ "containers", cmd_containers, NULL, "list or remove the containers of exec --write" },
	{ "commit", NULL, "mlrun-pull", "make an image of a container of exec --write" },
	{ "rm", cmd_rm, NULL, "remove images from the store" },
	{ "rmi", cmd_rm, NULL, NULL },
	{ "prune", cmd_prune, NULL, "remove unused images and data" },
	{ "store", NULL, "mlrun-pull", "verify and repair the store" },
	{ "tag", cmd_tag, NULL, "give an image in the store another name" },
	{ "gpu", cmd_gpu, NULL, "list the GPUs, and who may use them" },
	{ "config", cmd_config, NULL, "print the settings in effect and their sources" },
	{ "validate", cmd_validate, NULL, "check whether an image would work on this machine" },
	{ "doctor", cmd_doctor, NULL, "check this machine, its settings and the store" },
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
