/* The socket to listen on: HOST:PORT, [IPv6]:PORT or unix:PATH. */
#ifndef MLT_SERVE_LISTEN_H
#define MLT_SERVE_LISTEN_H

#include "base/base.h"

/*
 * Bind and listen.
 *
 *   where     port 0: any
 *   shares    other servers of this user that share may listen at the same port: each connection
 *             goes to one of them (socket(7), SO_REUSEPORT)
 *   ret_fd    the caller's
 *   ret_name  "http://127.0.0.1:8000" or "unix:PATH", to free()
 *   ret_local whether only this machine can reach it
 *
 * A socket of a server that has ended is replaced. Returns 0, -EINVAL for no such address,
 * -EADDRINUSE and kin.
 */
int serve_listen(const char *where, int shares, int *ret_fd, char **ret_name, int *ret_local,
	struct mlr_error *err);

#endif
