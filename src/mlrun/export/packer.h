/*
 * Layers packed by several threads and handed out in order: compressing is what an export waits
 * for. For this room's other files.
 */
#ifndef MLR_EXPORT_PACKER_H
#define MLR_EXPORT_PACKER_H

#include "base/strv.h"
#include "export/pack.h"

struct packer;

/* Begin with these layers; diff_ids and cancel stay the caller's and outlive the packer. No thread
 * runs far ahead: at most twice as many packed layers lie about as there are threads. Returns 0, or
 * -EAGAIN when no thread can be had. */
int packer_new(struct store *st, const struct strv *diff_ids, enum export_compression how,
	const int *cancel, struct packer **ret, struct mlr_error *err);

/* The next layer, as pack_layer() gives it. */
int packer_next(struct packer *p, struct pack *ret, struct mlr_error *err);

/* Stops what is under way. NULL is fine. */
void packer_free(struct packer *p);

static inline void packer_cleanup(struct packer **p)
{
	packer_free(*p);
}

#endif
