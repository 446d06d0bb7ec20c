/* Where the store is when no option names one. */
#ifndef MLR_STORE_PLACE_H
#define MLR_STORE_PLACE_H

#include "base/config.h"
#include "base/error.h"

/*
 * $MLRUN_STORE, else "store" of the configuration (base/config.h), else $XDG_DATA_HOME/mlrun, else
 * ~/.local/share/mlrun (the home directory by $HOME, else the user database).
 *
 *   ret     the directory, to free(); absolute unless MLRUN_STORE is relative
 *   origin  who says so, to free(): "MLRUN_STORE", "FILE:LINE", "XDG_DATA_HOME", "default"; may be
 *           NULL
 *
 * Returns 0, or -ENOENT for a user without a home directory.
 */
int store_place(const struct config *c, char **ret, char **origin, struct mlr_error *err);

/* A store's directory itself, or the nearest above it that is there, absolute, to free(). */
char *store_place_nearest(const char *path);

#endif
