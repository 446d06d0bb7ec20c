/* Tries a start of a container, by the steps that exec takes, up to its command. */
#ifndef MLR_DOCTOR_START_H
#define MLR_DOCTOR_START_H

#include "base/base.h"

/*
 * Make a container of an image, or of a made-up tree, in a child process, and leave it.
 *
 *   image  as exec takes it; NULL: an empty directory that is made and removed
 *   store  --store's value, or NULL
 *
 * Returns 0, or the negative errno of the step that failed, with what exec would say of it.
 */
int doctor_try_start(const char *image, const char *store, struct mlr_error *err);

#endif
