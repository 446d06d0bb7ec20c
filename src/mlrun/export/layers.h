/* Writes an image in each format: its layers apart, or its root as one tar. For this room's other
 * files. */
#ifndef MLR_EXPORT_LAYERS_H
#define MLR_EXPORT_LAYERS_H

#include "export/export.h"
#include "export/outlet.h"
#include "oci/config.h"
#include "oci/manifest.h"

/* The input: the stored image and its documents. */
struct work {
	struct store *st;
	const struct store_image *image;
	const struct export_options *opt;
	struct outlet *out;
	char *manifest_text, *config_text;
	size_t manifest_len, config_len;
	struct oci_document manifest;
	struct oci_config config;
	char *name; /* the annotation or tag, or NULL */
};

int layers_write_oci(struct work *w, struct export_result *ret, struct mlr_error *err);
int layers_write_docker(struct work *w, struct export_result *ret, struct mlr_error *err);
int export_rootfs_write(struct work *w, struct export_result *ret, struct mlr_error *err);

#endif
