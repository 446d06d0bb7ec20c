/* Works on many descriptors at once. */
#ifndef MLR_BASE_FDS_H
#define MLR_BASE_FDS_H

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

#endif
