/* mlrun-pull's main: the command that needs the network's and the archives' libraries. Called by
 * mlrun with mlrun's own argv, "mlrun pull ARGS...". */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	cli_init("mlrun");
	if (argc < 2 || strcmp(argv[1], "pull") != 0) {
		fprintf(stderr, "mlrun: this program is a part of mlrun: type mlrun pull IMAGE\n");
		return CLI_FAILED;
	}
	return cmd_pull(argc - 1, argv + 1);
}
