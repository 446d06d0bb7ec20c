/* mlrun-pull's main: runs the commands that need the network's and the archives' libraries. mlrun
 * becomes it, with its own argv, "mlrun pull ARGS...". */
#include "cli/apptainer.h"

static const struct {
	const char *name;
	cli_command run;
} commands[] = {
	{ "pull", cmd_pull },
	{ "import", cmd_import },
	{ "build", cmd_build },
	{ "commit", cmd_commit },
	{ "export", cmd_export },
	{ "push", cmd_push },
	{ "manifest", cmd_manifest },
	{ "inspect", cmd_inspect_remote },
	{ "login", cmd_login },
	{ "logout", cmd_logout },
	{ "tags", cmd_tags },
	{ "store", cmd_store },
};

int main(int argc, char **argv)
{
	cli_init();
	signal(SIGPIPE, SIG_IGN); /* a server or reader that goes away is an ordinary error */
	signal(SIGXFSZ, SIG_IGN); /* and so is the limit on file sizes */
	if (argc > 1 && strcmp(argv[0], "apptainer") == 0)
		return apptainer_make(argc, argv);
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "mlrun: this program is a part of mlrun: type mlrun pull IMAGE\n");
	return CLI_FAILED;
}
