/*
 * Reading the checkpoint that a run goes on from.
 */
#ifndef MLT_TRAIN_RESUME_H
#define MLT_TRAIN_RESUME_H

#include "base/error.h"
#include "dist/dist.h"
#include "model/checkpoint.h"

/*
 * Read a checkpoint on every rank. Rank 0 reads the file and gives the others its bytes, since it
 * may lie on a disk that only its node has.
 *
 *   ret   to checkpoint_done() after success
 *
 * Returns 1, 0 when there is no such file, or what checkpoint_read() gives, alike on all ranks;
 * -EIO when another rank failed.
 */
int resume_read(const char *path, struct dist *d, struct checkpoint *ret, struct mlr_error *err);

#endif
