/*
 * Reads the two documents at the top of an OCI layout, on disk or in an archive (image-spec,
 * image-layout.md): "oci-layout", which marks a layout, and "index.json".
 */
#ifndef MLR_OCI_LAYOUT_H
#define MLR_OCI_LAYOUT_H

#include "base/base.h"
#include "oci/manifest.h"
#include "oci/platform.h"

/* Check that "oci-layout" names a supported version. Returns 0, -EPROTO, -ENOTSUP. */
int oci_layout_check(const char *json, size_t len, struct mlr_error *err);

/*
 * Choose an entry of index.json.
 *
 *   which  a name in it, verbatim or as Docker expands it; "@N"; NULL for the only entry
 *   want   chooses if a name has an entry for each platform
 *
 * Returns 0 and the entry; 1 if the entries have platforms but no names, so that index.json itself
 * is the image's index; -ENOENT, or -EINVAL if several match. The hint lists them.
 */
int oci_layout_choose(const struct oci_document *index, const char *which,
	const struct oci_platform *want, const struct oci_index_entry **ret, struct mlr_error *err);

#endif
