/* Shared by gpu check and validate: an image, a machine, and findings about them. */
#ifndef MLR_CLI_IMAGE_CHECK_H
#define MLR_CLI_IMAGE_CHECK_H

#include "cli/options.h"

/* Their arguments. */
struct image_check {
	struct cli_common common;
	const char *image, *profile, *gpu;
	const char *partition; /* --partition: the profile of that name; validate only */
	int json;
	int whole; /* validate: not only GPUs */
};

#define IMAGE_CHECK_OPTIONS                                                                \
	{ "gpu", 0, "WORD", 0, "--gpu of mlrun exec: auto, all, a list of devices", 0,     \
		OPT(struct image_check, gpu) },                                            \
		{ "profile", 0, "FILE", 0,                                                 \
			"check with a machine recorded by mlrun profile, not this one", 0, \
			OPT(struct image_check, profile) },                                \
		CLI_OPTION_JSON(struct image_check),                                       \
	{                                                                                  \
		0                                                                          \
	}

/* The operand; another one is refused. */
void image_check_parse(void *args, char *arg, struct argp_state *state);

/* Judge and print. Returns the exit status. */
int image_check_run(const struct image_check *a);

#endif
