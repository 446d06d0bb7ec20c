/* Confines the server of a squashfs image, whose parsing code a hostile image could take over. */
#ifndef MLR_SQUASHFS_SERVER_CONFINE_H
#define MLR_SQUASHFS_SERVER_CONFINE_H

/*
 * Confine the calling thread and those that it starts, for good: no new privileges, no core file,
 * no opening of files (landlock(7)), and only the system calls that reading and serving an image
 * need (seccomp(2)); others fail with EPERM.
 *
 * Call it before the image is read, while there is only one thread. Skips what the kernel lacks.
 */
void confine(void);

#endif
