/* Descriptors: many at once, and from one process to another. */
#pragma once

#include <sys/types.h>

/*
 * close_range(2), or a loop where the kernel lacks it (before Linux 5.9; for CLOSE_RANGE_CLOEXEC
 * 5.11) or a sandbox refuses it.
 *
 *   flags  0: close them; CLOSE_RANGE_CLOEXEC: let execve(2) do so
 *
 * Allocates nothing, so that a child of a threaded program may call it. Returns 0 or -errno.
 */
int fds_close_range(unsigned first, unsigned last, int flags);

/*
 * Open /dev/null for each of stdin, stdout and stderr that is closed. Otherwise the next opened
 * file would get its number, and messages would go there. Every program calls this first.
 */
void fds_open_standard(void);

/* Send bytes, and a descriptor with them unless it is -1, by a local socket. Returns the number of
 * bytes or -errno; no SIGPIPE. */
ssize_t fds_send(int sock, const void *buf, size_t len, int fd);

/* Receive bytes and the descriptor that came with them, or -1; it is the caller's, with
 * close-on-exec. Returns the number of bytes or -errno. */
ssize_t fds_receive(int sock, void *buf, size_t len, int *fd);
