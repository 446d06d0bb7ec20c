/* --output of mlrun build: what is made of the image, besides putting it into the store. */
#pragma once

#include "export/export.h"
#include "store/image.h"

struct build_output {
	struct export_options export;
	char *dest; /* "-": standard output */
	char *name; /* or NULL */
};

/*
 * Parse "type=local|tar|oci|docker|sif,dest=PATH[,name=NAME][,tar=false]", as
 * docker-buildx-build(1) has it; a directory alone is type=local, "-" is type=tar to standard
 * output.
 *
 * Returns 0, or -EINVAL with the words at fault.
 */
int build_output_parse(const char *text, struct build_output *ret, struct mlr_error *err);

/* Write the image. name: its first name, or NULL. Returns export_image()'s errors. */
int build_output_write(const struct build_output *o, struct store *st, const struct store_image *im,
	const char *name, struct mlr_error *err);
