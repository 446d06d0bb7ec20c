/* Where mlrun's own other programs are. */
#ifndef MLR_BASE_PROGRAM_H
#define MLR_BASE_PROGRAM_H

#include <sys/types.h>

/*
 * The path of a program of ours: beside this one in the build tree; in libexec beside bin where
 * installed, wherever the tree was moved to; where configure said. To free().
 */
char *program_path(const char *name);

/*
 * Run a program of ours and read what it prints. It has its arguments, an empty environment and our
 * standard input and error, and no other descriptor.
 *
 *   path    program_path()'s
 *   buf     gets at most size bytes; what comes after them is lost
 *   status  waitpid(2)'s; 0 when SIGCHLD came to us ignored, which leaves none to ask for
 *
 * Returns the number of bytes, or -errno of posix_spawn(3), pipe(2) or read(2). Waits for its end.
 */
ssize_t program_ask(const char *path, char *const *argv, char *buf, size_t size, int *status);

#endif
