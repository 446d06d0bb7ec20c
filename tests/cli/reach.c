/* Prints what each row of the recipe's and compose's tables reaches, for trust.bats:
 * "ROW<tab>WORDS". */
#include "base/reach.h"
#include "compose/compose.h"
#include "recipe/definition.h"
#include "recipe/run_mount.h"

#include <stdio.h>
#include <string.h>

static void print(void *ctx, const char *row, enum reach reach)
{
	(void)ctx;
	printf("%s\t%s\n", row, reach_words[reach]);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "compose") == 0) {
		compose_each_reach(print, NULL);
		return 0;
	}
	definition_each_reach(print, NULL);
	instruction_each_reach(print, NULL);
	run_mount_each_reach(print, NULL);
	return 0;
}
