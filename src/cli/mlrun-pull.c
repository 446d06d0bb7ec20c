/* mlrun-pull's main: the command that needs the network's and the archives' libraries. Called by
 * mlrun with mlrun's own argv, "mlrun pull ARGS...". */
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	cli_init();
	signal(SIGPIPE, SIG_IGN); /* a server or a reader that goes is an error with a sentence */
	signal(SIGXFSZ, SIG_IGN); /* and so is the limit on file sizes */
	if (argc < 2 || strcmp(argv[1], "pull") != 0) {
		fprintf(stderr, "mlrun: this program is a part of mlrun: type mlrun pull IMAGE\n");
		return CLI_FAILED;
	}
	return cmd_pull(argc - 1, argv + 1);
}
