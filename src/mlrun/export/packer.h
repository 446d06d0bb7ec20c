/*
 * Packs layers in several threads and returns them in order: compressing is the slow part of an
 * export. For this room's other files.
 */
#ifndef MLR_EXPORT_PACKER_H
#define MLR_EXPORT_PACKER_H

#include "base/strv.h"
#include "export/pack.h"

struct packer;

/* Start with these layers; diff_ids and cancel stay the caller's and outlive the packer. At most
 * twice as many packed layers wait as there are threads. Returns 0, or -EAGAIN if no thread can be
 * started. */
int packer_new(struct store *st, const struct strv *diff_ids, enum oci_compression how,
	const int *cancel, struct packer **ret, struct mlr_error *err);

/* Get the next layer, as from pack_layer(). */
int packer_next(struct packer *p, struct pack *ret, struct mlr_error *err);

/* Stops what is in progress. NULL is fine. */
void packer_free(struct packer *p);

static inline void packer_cleanup(struct packer **p)
{
	packer_free(*p);
}

#endif
