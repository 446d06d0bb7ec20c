/* The store's default directory. */
#ifndef MLR_STORE_PLACE_H
#define MLR_STORE_PLACE_H

#include "base/config.h"
#include "base/error.h"

/*
 * $MLRUN_STORE, else "store" of the configuration (base/config.h), else $XDG_DATA_HOME/mlrun, else
 * ~/.local/share/mlrun (the home directory by $HOME, else the user database).
 *
 *   ret     the directory, to free()
 *   origin  what names it, to free(): "MLRUN_STORE", "FILE:LINE", "XDG_DATA_HOME", "default"; may
 *           be NULL
 *
 * Returns 0, -EINVAL for a relative MLRUN_STORE, or -ENOENT for a user without a home directory.
 */
int store_place(const struct config *c, char **ret, char **origin, struct mlr_error *err);

/* The absolute path of a directory, or of its nearest existing parent, to free(). */
char *store_place_nearest(const char *path);

#endif
