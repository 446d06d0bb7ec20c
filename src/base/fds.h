/* Many descriptors at once. */
#ifndef MLR_BASE_FDS_H
#define MLR_BASE_FDS_H

/*
 * close_range(2), and the same by hand where the kernel has it not (before Linux 5.9; for
 * CLOSE_RANGE_CLOEXEC 5.11) or a sandbox refuses it.
 *
 *   flags  0: close them; CLOSE_RANGE_CLOEXEC: let execve(2) do so
 *
 * Allocates nothing: a child of a program with threads may call it. Returns 0 or -errno.
 */
int fds_close_range(unsigned first, unsigned last, int flags);

/*
 * Open /dev/null for each of stdin, stdout and stderr that is closed: a closed one would be given
 * to the next file that is opened, and messages would go there. The first thing a program does.
 */
void fds_open_standard(void);

#endif
