/* Reads the checkpoint from which a run continues. */
#ifndef MLT_TRAIN_RESUME_H
#define MLT_TRAIN_RESUME_H

#include "base/error.h"
#include "dist/dist.h"
#include "model/checkpoint.h"

/*
 * Read a checkpoint on every rank. Rank 0 reads the file and broadcasts it, because the file may be
 * on a disk of its node.
 *
 *   ret   after success, release it with checkpoint_done()
 *
 * Returns 1, 0 if the file does not exist, or an error of checkpoint_read(), the same on all ranks;
 * -EIO if another rank failed.
 */
int resume_read(const char *path, struct dist *d, struct checkpoint *ret, struct mlr_error *err);

#endif
