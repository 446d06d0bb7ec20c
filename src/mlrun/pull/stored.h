/* Finds what a store already has under a name, and checks it. For pull.c. */
#ifndef MLR_PULL_STORED_H
#define MLR_PULL_STORED_H

#include "oci/platform.h"
#include "oci/ref.h"
#include "store/image.h"
#include "store/store.h"

struct stored_want {
	const struct oci_ref *ref;
	const char *name; /* the canonical name */
	const struct oci_platform *platform;
	unsigned format; /* an enum store_format; 0: any */
	int blobs;       /* the compressed layers, too */
};

/*
 * Returns 1 if the store has an image under exactly this name, for the platform, with its
 * documents, its facts and the format's parts; else 0.
 *
 *   formats  the formats that the store has it in
 */
int stored_find(struct store *st, const struct stored_want *want, struct store_image *ret,
	unsigned *formats);

#endif
