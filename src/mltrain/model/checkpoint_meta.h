/*
 * What a checkpoint says beside its tensors: the metadata of checkpoint.h, made and read.
 */
#ifndef MLT_MODEL_CHECKPOINT_META_H
#define MLT_MODEL_CHECKPOINT_META_H

#include "base/error.h"
#include "model/checkpoint.h"
#include "tensor/safetensors.h"

#define CHECKPOINT_METAS 10

struct checkpoint_meta {
	struct metadata entries[CHECKPOINT_METAS]; /* values owned */
	size_t n;
};

/* Make a checkpoint's metadata, to checkpoint_meta_done(). */
void checkpoint_meta_make(const struct checkpoint *c, struct checkpoint_meta *ret);
void checkpoint_meta_done(struct checkpoint_meta *m);

/*
 * Read the metadata of a file that holds st: all of c but its blocks of floats is set. c is to be
 * checkpoint_done() after a failure too.
 *
 * Returns 0, or -EPROTO for what is missing or can't be, -ENOTSUP for a network that is not known.
 */
int checkpoint_meta_read(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err);

#endif
