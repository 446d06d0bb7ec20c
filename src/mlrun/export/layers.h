/* Writes an image in each format: its layers apart, or its root as one tar. For this room's other
 * files. */
#pragma once

#include "export/documents.h"
#include "export/export.h"
#include "export/outlet.h"

/* The input: the stored image and its documents. */
struct work {
	struct store *st;
	const struct store_image *image;
	const struct export_options *opt;
	struct outlet *out;
	struct documents doc;
	char *name; /* the annotation or tag, or NULL */
};

int layers_write_oci(struct work *w, struct export_result *ret, struct mlr_error *err);
int layers_write_docker(struct work *w, struct export_result *ret, struct mlr_error *err);
int export_rootfs_write(struct work *w, struct export_result *ret, struct mlr_error *err);
