/* Finds a user's own directories. */
#pragma once

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

/*
 * Where no other user and no container can write what running processes leave for each other:
 * $XDG_RUNTIME_DIR or /run/user/UID, if it is the user's and of mode 0700, or 0711, as podman
 * makes it; /run for root, if it can be written to. To free(); NULL: there is no such directory.
 */
char *home_runtime_dir(void);
