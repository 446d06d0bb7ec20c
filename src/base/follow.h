/* Follows links safely to where something will be written. */
#pragma once

#include "base/error.h"

/*
 * As realpath(3), but refuses links that another user has put into a sticky, world-writable
 * directory such as /tmp, unless the directory belongs to that user. This is the rule of sysctl
 * fs.protected_symlinks (proc_sys_fs(5)), applied even if it is off, and to files that are
 * replaced.
 *
 * Returns 0 with the path to free(), or NULL if nothing is there; -EACCES for such a link.
 */
int follow_real(const char *path, char **ret, struct mlr_error *err);

/*
 * Open an output file for appending, or make it with mode 0666 less the umask. Follows links as
 * follow_real() does. Returns a descriptor; -EACCES for another user's link; -errno of open.
 */
int follow_append(const char *path, struct mlr_error *err);
