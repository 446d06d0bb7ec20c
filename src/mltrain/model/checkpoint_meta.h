/* Makes and reads a checkpoint's metadata (checkpoint.h). */
#ifndef MLT_MODEL_CHECKPOINT_META_H
#define MLT_MODEL_CHECKPOINT_META_H

#include "model/checkpoint.h"
#include "tensor/safetensors.h"

#define CHECKPOINT_METAS 10

struct checkpoint_meta {
	struct metadata entries[CHECKPOINT_METAS]; /* values owned */
	size_t n;
};

/* Make a checkpoint's metadata. Release it with checkpoint_meta_done(). */
void checkpoint_meta_make(const struct checkpoint *c, struct checkpoint_meta *ret);
void checkpoint_meta_done(struct checkpoint_meta *m);

/*
 * Set all of c but its blocks of floats from st's metadata. Release c with checkpoint_done(), after
 * a failure too.
 *
 * Returns 0, or -EPROTO for missing or invalid metadata, -EINVAL for an invalid network.
 */
int checkpoint_meta_read(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err);

#endif
