/*
 * What inspect shows of an image, and how, wherever the image is: mlrun looks into the store,
 * mlrun-pull at registries and files.
 */
#ifndef MLR_CLI_INSPECT_H
#define MLR_CLI_INSPECT_H

#include "cli/options.h"
#include "oci/config.h"
#include "oci/name.h"
#include "oci/platform.h"

struct inspect_args {
	struct cli_common common;
	const char *image;
	const char *platform; /* --platform, or NULL */
	int remote, json, raw;
	struct cli_registry registry;
	struct oci_platform want; /* platform, parsed */
};

#define INSPECT_ARGS_INIT                     \
	{                                     \
		.registry = CLI_REGISTRY_INIT \
	}

void inspect_args_done(struct inspect_args *a);

/* Parses the command line or exits; returns 0, or -EINVAL with err set for a wrong platform. */
int inspect_parse(int argc, char **argv, struct inspect_args *ret, struct mlr_error *err);

/* All that is known of one image. */
struct picture {
	struct store_image image; /* pulled is 0 for one that is in no store */
	char *store;              /* the store's path, or NULL */
	unsigned formats;         /* that the store holds it in (store/facts.h) */
	struct oci_config config;
	struct oci_document manifest;
};

#define PICTURE_INIT                      \
	{                                 \
		.image = STORE_IMAGE_INIT \
	}

void picture_done(struct picture *p);
/* As text or as JSON. Returns the exit status. */
int picture_print(const struct picture *p, const struct inspect_args *a);

#endif
