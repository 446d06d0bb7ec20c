/* mlrun validate: judges whether an image works on this machine, or a recorded one. */
#include "cli/cli.h"
#include "cli/image_check.h"

static const struct option_row options[] = {
	{ "partition", 0, "NAME", 0,
		"check with a node of this partition, whose profile the site or the user has", 0,
		OPT(struct image_check, partition) },
	IMAGE_CHECK_OPTIONS,
};

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE",
	.s.doc =
		"Check whether an image would work on this machine: its labels, command, loader, MPI and GPUs.\v"
		"Starts nothing. The exit status is 0 if the image works, 1 if not, 125 if that is "
		"unknown.",
	.s.operands = { OPT_CALL(image_check_parse) },
	.s.needed = 1,
	.s.missing = "expected an image",
};

int cmd_validate(int argc, char **argv)
{
	struct image_check a = { .whole = 1 };

	cli_options_parse(argc, argv, &syntax, &a);
	return image_check_run(&a);
}
