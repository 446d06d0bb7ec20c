#include "cli/cli.h"

int cmd_pull(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return CLI_FAILED;
}
