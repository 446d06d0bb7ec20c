/*
 * What a store has under a name already, and whether it is still good. For pull.c.
 */
#ifndef MLR_PULL_STORED_H
#define MLR_PULL_STORED_H

#include "oci/platform.h"
#include "oci/ref.h"
#include "store/image.h"
#include "store/store.h"

struct stored_want {
	const struct oci_ref *ref;
	const char *name; /* the same, canonical */
	const struct oci_platform *platform;
	unsigned format; /* an enum store_format; 0: any */
	int blobs;       /* the compressed layers, too */
};

/*
 * Returns 1 when the store has an image under the very name, of that platform, and its documents,
 * facts and what the format consists of are there; else 0.
 *
 *   formats  that it is kept in
 */
int stored_find(struct store *st, const struct stored_want *want, struct store_image *ret,
	unsigned *formats);

#endif
