/*
 * Prints what inspect shows of an image: `mlrun` for images in the store, `mlrun-pull` for those in
 * registries and files.
 */
#pragma once

#include "cli/options.h"
#include "oci/config.h"
#include "oci/name.h"
#include "oci/platform.h"

struct inspect_args {
	struct cli_common common;
	const char *image;
	const char *platform; /* --platform, or NULL */
	int remote, json, raw, pin;
	struct cli_registry registry;
	struct oci_platform want; /* platform, parsed */
};

#define INSPECT_ARGS_INIT                     \
	{                                     \
		.registry = CLI_REGISTRY_INIT \
	}

/* Parse the command line, or exit. Returns 0, or -EINVAL for an invalid platform. */
int inspect_parse(int argc, char **argv, struct inspect_args *ret, struct mlr_error *err);

/* Print what is in the file "sif:FILE" or "squashfs:FILE", without starting anything of it. Returns
 * an exit status, or an error of rootfs_plan(). */
int inspect_file(const struct inspect_args *a, const char *image, struct mlr_error *err);

/* All that is known about an image. */
struct picture {
	struct store_image image; /* pulled is 0 if it is in no store */
	char *store;              /* the store's path, or NULL */
	unsigned formats;         /* in the store (store/facts.h) */
	struct oci_config config;
	struct oci_document manifest;
};

void picture_done(struct picture *p);
/* Print as text or as JSON. Returns the exit status. */
int picture_print(const struct picture *p, const struct inspect_args *a);
