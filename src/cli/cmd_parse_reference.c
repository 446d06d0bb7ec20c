#include "cli/cli.h"

int cmd_parse_reference(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return CLI_FAILED;
}
