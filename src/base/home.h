/* Finds a user's own directories. */
#ifndef MLR_BASE_HOME_H
#define MLR_BASE_HOME_H

#include "base/error.h"

/* The home directory: $HOME, else from the user database. An absolute path to free(), or NULL with
 * err (-ENOENT) set. */
char *home_dir(struct mlr_error *err);

/*
 * A directory of the XDG base directory specification.
 *
 *   variable  "XDG_CONFIG_HOME"; ignored if empty or, being invalid, relative
 *   fallback  below the home directory: ".config"
 *
 * Returns as home_dir().
 */
char *home_xdg_dir(const char *variable, const char *fallback, struct mlr_error *err);

#endif
