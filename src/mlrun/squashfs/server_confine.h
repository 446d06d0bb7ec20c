/* The server of a squashfs image gives up what a hostile image could make of the code that reads
 * it. */
#ifndef MLR_SQUASHFS_SERVER_CONFINE_H
#define MLR_SQUASHFS_SERVER_CONFINE_H

/*
 * For ever, in the calling thread and those that it makes: no new privileges, no core file, no file
 * is opened (landlock(7)), and no system call but those with which an image is read and served
 * (seccomp(2)); others fail with EPERM.
 *
 * To be called before the image is read and while there is one thread only. A kernel without
 * Landlock or seccomp does without.
 */
void confine(void);

#endif
