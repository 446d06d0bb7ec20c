/* mlrun gpu check: judges whether an image works with this machine's GPUs, or a recorded machine's.
 */
#include "cli/cli.h"
#include "cli/image_check.h"

static const struct option_row options[] = { IMAGE_CHECK_OPTIONS };

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE",
	.s.doc =
		"Check whether an image would work with this machine's GPUs, and say what to do if not.\v"
		"Starts nothing. The exit status is 0 if the image works or needs no GPU, 1 if not, 125 if that "
		"is unknown.",
	.s.operands = { OPT_CALL(image_check_parse) },
	.s.needed = 1,
	.s.missing = "expected an image",
};

int cmd_gpu_check(int argc, char **argv)
{
	struct image_check a = { .whole = 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	return image_check_run(&a);
}
