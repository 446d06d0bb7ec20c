/* A terminal for the container's process, whose other end a socket of the caller gets. */
#ifndef MLR_BUNDLE_TERMINAL_H
#define MLR_BUNDLE_TERMINAL_H

#include "base/base.h"

/* Connect to --console-socket. Returns a descriptor or -errno. */
int terminal_connect(const char *path, struct mlr_error *err);

/* Open a terminal of the container's own, send its master to the socket (SCM_RIGHTS), and make it
 * the standard input, output and error of a new session. rows 0: no size. */
int terminal_enter(int socket, int rows, int columns, struct mlr_error *err);

#endif
