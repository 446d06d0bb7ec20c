/*
 * Where a user's own files lie.
 */
#ifndef MLR_BASE_HOME_H
#define MLR_BASE_HOME_H

#include "base/error.h"

/* The home directory: $HOME, else what the user database says. An absolute path to free(), or NULL
 * with err (-ENOENT) set. */
char *home_dir(struct mlr_error *err);

/*
 * A directory of the XDG base directory specification.
 *
 *   variable  "XDG_CONFIG_HOME"; a relative value is invalid and passed over, as is an empty one
 *   fallback  below the home directory: ".config"
 *
 * Returns as home_dir().
 */
char *home_xdg_dir(const char *variable, const char *fallback, struct mlr_error *err);

#endif
