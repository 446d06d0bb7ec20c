/*
 * Guards against CVE-2019-5736: the host's mlrun must not run as a program of the container. A
 * hostile image could load code into it that opens mlrun's own file and overwrites it on the host.
 */
#ifndef MLR_RUNTIME_ITSELF_H
#define MLR_RUNTIME_ITSELF_H

#include "base/error.h"

/* Note which file that is, before the container is entered: inside, the container decides what is
 * at /proc/self/exe. Returns 0 or -errno. */
int itself_remember(struct mlr_error *err);

/*
 * Refuse to execute the calling program's own file through a link such as /proc/self/exe, or a
 * script whose interpreter is such a link, also through other scripts (execve(2) follows five).
 * Call it inside the container. Files that cannot be read are left to execve(2), and so is an mlrun
 * that the user has mounted.
 *
 * Returns 0, or -EPERM.
 */
int itself_refuse(const char *path, struct mlr_error *err);

#endif
