/* Links that lead to where something is to be written. */
#ifndef MLR_BASE_FOLLOW_H
#define MLR_BASE_FOLLOW_H

#include "base/error.h"

/*
 * As realpath(3), but no link is followed that another user has put into a directory where
 * everybody may write (sticky, as /tmp), unless the directory is that user's: what sysctl
 * fs.protected_symlinks forbids (proc_sys_fs(5)), where it is off as well and for a file that is
 * replaced.
 *
 * Returns 0 with the path to free(), or NULL where nothing is there; -EACCES for such a link.
 */
int follow_real(const char *path, char **ret, struct mlr_error *err);

#endif
