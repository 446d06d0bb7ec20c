/* Shared by push and manifest push: options, and progress. */
#pragma once

#include "cli/options.h"
#include "push/push.h"

/* Their structs begin with it. */
struct push_args {
	struct cli_common common;
	struct cli_registry registry;
	struct push_options push;
	const char *digestfile;
	int json;
	unsigned given; /* 1: --compression */
	int drawn;      /* a line on the terminal is to be overwritten */
};

#define PUSH_ARGS_INIT                                   \
	{                                                \
		.registry = CLI_REGISTRY_INIT, .push = { \
			.compression = OCI_GZIP,         \
			.jobs = PUSH_JOBS                \
		}                                        \
	}

#define PUSH_OPTIONS                                                                     \
	{ "compression", 0, "HOW", 0,                                                    \
		"compress layers that have to be sent: gzip (default), zstd or none", 1, \
		OPT_READ(struct push_args, push.compression, cli_read_compression,       \
			CLI_A_COMPRESSION),                                              \
		1 },                                                                     \
		{ "jobs", 0, "N", 0, "layers at once; default: 3", 1,                    \
			OPT_COUNT(struct push_args, push.jobs, 1, PUSH_JOBS_MAX) },      \
		{ "digestfile", 0, "FILE", 0, "write the manifest's digest to FILE", 1,  \
			OPT(struct push_args, digestfile) },                             \
		CLI_OPTION_QUIET(2), CLI_OPTION_JSON(struct push_args)

/* After parsing: settle what the options say and read the configuration. text is the first
 * operand. */
int push_args_settle(struct push_args *a, const char *text, struct mlr_error *err);

/* Parse a destination in a registry: "[docker://]NAME[:TAG]". Returns 0 or -EINVAL. */
int push_args_destination(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* Push an image and tell of its layers. */
int push_args_run(struct push_args *a, struct store *st, const struct store_image *im,
	const struct oci_ref *to, struct push_result *ret, struct mlr_error *err);

/* Write the digest where --digestfile says. */
int push_args_write_digest(const struct push_args *a, const char *digest, struct mlr_error *err);
