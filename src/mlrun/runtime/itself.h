/*
 * The host's mlrun must not run as a program of the container: it would bring a descriptor of its
 * own file, by which a hostile image that is loaded with it could overwrite the host's
 * (CVE-2019-5736).
 */
#ifndef MLR_RUNTIME_ITSELF_H
#define MLR_RUNTIME_ITSELF_H

#include "base/error.h"

/*
 * Refuse to execute the calling program's own file by a link such as /proc/self/exe, or a script
 * that names it so as interpreter, be it through other scripts (execve(2) follows five). Called
 * inside the container. A file that cannot be read is left to execve(2), and so is mlrun where the
 * user has mounted it.
 *
 * Returns 0, or -EPERM.
 */
int itself_refuse(const char *path, struct mlr_error *err);

#endif
