/* Unnamed temporary files: they vanish with their descriptor, however the process ends. */
#ifndef MLR_BASE_TEMP_H
#define MLR_BASE_TEMP_H

#include "base/error.h"

/* Make one in a directory; dir_fd -1: in $TMPDIR, else /tmp. Returns the descriptor or -errno. */
int temp_open(int dir_fd, struct mlr_error *err);

#endif
