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
 *   status  waitpid(2)'s
 *
 * Returns the number of bytes, or -errno of posix_spawn(3), pipe(2) or read(2). Waits for its end.
 */
ssize_t program_ask(const char *path, char *const *argv, char *buf, size_t size, int *status);

/*
 * Start a program of ours that goes on telling on its standard output. It has its arguments, this
 * environment and our standard input and error, and no other descriptor.
 *
 *   out  gets the end to read from, close-on-exec
 *   pid  to be waited for by the caller
 *
 * Returns 0, or -errno of posix_spawn(3) or pipe(2).
 */
int program_start(const char *path, char *const *argv, char *const *envp, int *out, pid_t *pid);

/*
 * Start a program of ours that answers on a socket. It has its arguments, an empty environment, the
 * socket as descriptor 3, a file as 4, /dev/null below these, and nothing else of ours: a session
 * of its own, so that no terminal's signals reach it, the directory "/", no signal blocked.
 *
 *   pid  to be waited for by the caller
 *
 * posix_spawn(3) shares our memory until the program's own is there, where fork(2) would copy the
 * page tables. Returns 0, or -errno of posix_spawn(3) or fcntl(2).
 */
int program_serve(const char *path, char *const *argv, int sock, int file, pid_t *pid);

#endif
