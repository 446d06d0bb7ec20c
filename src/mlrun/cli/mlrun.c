/* mlrun's main: finds the command's row and calls it, or becomes the program that has it. */
#include "cli/commands.h"

#include <argp.h>

static const struct command rows[] = {
	{ "pull", NULL, "mlrun-pull", "fetch an image from a registry into the store", "Images" },
	{ "import", NULL, "mlrun-pull", "copy an image from a file into the store" },
	{ "export", NULL, "mlrun-pull", "write an image from the store into a file" },
	{ "build", NULL, "mlrun-pull", "make an image by a Dockerfile" },
	{ "push", NULL, "mlrun-pull", "write an image from the store to a registry" },
	{ "manifest", NULL, "mlrun-pull", "let one name stand for images of several platforms" },
	{ "login", NULL, "mlrun-pull", "keep a user name and password for a registry" },
	{ "logout", NULL, "mlrun-pull", "forget them" },
	{ "tags", NULL, "mlrun-pull", "list an image's tags in its registry" },
	{ "images", cmd_images, NULL, "list the images in the store" },
	{ "inspect", cmd_inspect, NULL, "describe an image" },
	{ "tag", cmd_tag, NULL, "give an image in the store another name" },
	{ "rm", cmd_rm, NULL, "remove images from the store" },
	{ "rmi", cmd_rm, NULL, NULL },
	{ "prune", cmd_prune, NULL, "remove unused images and data" },
	{ "store", NULL, "mlrun-pull", "verify and repair the store" },
	{ "parse-reference", cmd_parse_reference, NULL,
		"print the parts of an image name as JSON" },
	{ "exec", cmd_exec, NULL, "run a command in an image", "Containers" },
	{ "run", cmd_run, NULL, "the same as exec, or with -d a service in the background" },
	{ "shell", cmd_shell, NULL, "start an interactive shell in an image" },
	{ "rerun", cmd_rerun, NULL, "start a job's container once more" },
	{ "containers", cmd_containers, NULL, "list or remove the containers of exec --write" },
	{ "commit", NULL, "mlrun-pull", "make an image of a container of exec --write" },
	{ "oci", cmd_oci, NULL, "run OCI bundles, as runc and crun do" },
	{ "ps", cmd_ps, NULL, "list the containers and services on this node", "Services" },
	{ "logs", cmd_logs, NULL, "print what services have printed" },
	{ "stop", cmd_stop, NULL, "end services" },
	{ "kill", cmd_kill, NULL, "end services at once, or send them a signal" },
	{ "restart", cmd_restart, NULL, "start services again" },
	{ "wait", cmd_wait, NULL, "wait until services have ended" },
	{ "up", cmd_up, NULL, "start the services of a compose file" },
	{ "down", cmd_down, NULL, "end them, and forget them" },
	{ "compose", cmd_compose, NULL, "the commands of docker compose" },
	{ "service-hold", cmd_service_hold, NULL, NULL },
	{ "web", NULL, "mlrun-web", "show runs in a browser, start and stop them there" },
	{ "workers", cmd_workers, NULL, "start containers on other nodes, and use them",
		"Cluster" },
	{ "elastic", cmd_elastic, NULL, "run a command on as many nodes as are free" },
	{ "mlrun-rsh", cmd_rsh, NULL, NULL },
	{ "apptainer", cmd_apptainer, NULL, NULL },
	{ "singularity", cmd_apptainer, NULL, NULL },
	{ "run-singularity", cmd_apptainer, NULL, NULL },
	{ "shifter", cmd_shifter, NULL, NULL },
	{ "shifterimg", cmd_shifterimg, NULL, NULL },
	{ "gpu", cmd_gpu, NULL, "list the GPUs, and who may use them", "Machine" },
	{ "config", cmd_config, NULL, "print the settings in effect and their sources" },
	{ "validate", cmd_validate, NULL, "check whether an image would work on this machine" },
	{ "check", cmd_validate, NULL, "the same as validate" },
	{ "doctor", cmd_doctor, NULL, "check this machine, its settings and the store" },
	{ "profile", cmd_profile, NULL, "record this machine, its GPUs and their driver" },
};

static const struct commands commands = {
	.before =
		"Usage: mlrun COMMAND [OPTION...] [ARG...]\n"
		"Run container images on an HPC node or a workstation, without root and without a "
		"daemon.\n",
	.after = "\n`mlrun COMMAND --help` lists a command's options; mlrun(1), mlrun-pull(1) and\n"
		 "mlrun-exec(1) the rest. `mlrun --version` prints the version.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

/* Find the command that this program's name is, as "shifter" in its modulefile's directory, or
 * "mlrun-rsh"; or NULL. */
static const struct command *row_of_program(const char *path)
{
	const char *name = path_base(path);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(name, rows[i].name) == 0 &&
			(rows[i].run == cmd_shifter || rows[i].run == cmd_shifterimg ||
				rows[i].run == cmd_rsh || rows[i].run == cmd_apptainer))
			return &rows[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *row = argc > 0 ? row_of_program(argv[0]) : NULL;

	cli_init();
	if (row)
		return row->run(argc, argv);
	if (argc > 1 &&
		(strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
			strcmp(argv[1], "version") == 0)) {
		argp_program_version_hook(stdout, NULL);
		return 0;
	}
	return commands_run(&commands, argc, argv);
}
