/*
 * The two documents at the top of an OCI layout, on disk or in an archive (image-spec,
 * image-layout.md): "oci-layout", which says that it is one, and "index.json".
 */
#ifndef MLR_OCI_LAYOUT_H
#define MLR_OCI_LAYOUT_H

#include "base/error.h"
#include "oci/manifest.h"
#include "oci/platform.h"

#include <stddef.h>

/* Is this the "oci-layout" of a version that we speak? Returns 0, -EPROTO, -ENOTSUP. */
int oci_layout_check(const char *json, size_t len, struct mlr_error *err);

/*
 * Which entry of index.json is meant.
 *
 *   which  a name there, as it stands or as Docker understands it; "@N"; NULL for the only one
 *   want   chooses where one name has an entry for each platform
 *
 * Returns 0 and the entry; 1 when the entries have no names but platforms, so that index.json
 * itself is the image's index; -ENOENT and, where NULL leaves a choice, -EINVAL, listing what there
 * is.
 */
int oci_layout_choose(const struct oci_document *index, const char *which,
	const struct oci_platform *want, const struct oci_index_entry **ret, struct mlr_error *err);

#endif
