/* Finds and runs programs, mlrun's helpers above all. */
#pragma once

#include <sys/types.h>

/*
 * The path of a helper program, to free(): beside this program in the build tree; in libexec beside
 * bin if installed, also in a moved tree; otherwise where configure said.
 */
char *program_path(const char *name);

/* The path of mlrun itself, for a helper of it, or "mlrun", to look for in PATH; to free(). */
char *program_main(void);

/*
 * Find a program in the absolute directories of PATH; to free(). NULL: there is none that this
 * process may run. posix_spawnp(3) alone cannot distinguish an inaccessible directory of PATH from
 * a program that we may not run.
 */
char *program_find(const char *name);

/*
 * Become a helper, whose libraries are those that it was linked with: LD_LIBRARY_PATH, which conda
 * and module files set, is hidden from its dynamic linker. Its main() gets the variable back by
 * program_take_environment(). Returns -errno of execve(2).
 */
int program_become(const char *path, char *const *argv);
void program_take_environment(void);

/*
 * Run a helper and read its output. It inherits our standard input and error, but no other
 * descriptor and no environment.
 *
 *   path    program_path()'s
 *   buf     gets at most size bytes; the rest is dropped
 *   status  waitpid(2)'s
 *
 * Waits for it to end. Returns the number of bytes, or -errno of posix_spawn(3), pipe(2) or
 * read(2).
 */
ssize_t program_ask(const char *path, char *const *argv, char *buf, size_t size, int *status);

/*
 * Start a helper that keeps writing to its standard output. It inherits our standard input and
 * error, but no other descriptor, and gets this environment.
 *
 *   out  gets the end to read from, close-on-exec
 *   pid  the caller waits for it
 *
 * Returns 0, or -errno of posix_spawn(3) or pipe(2).
 */
int program_start(const char *path, char *const *argv, char *const *envp, int *out, pid_t *pid);

/*
 * Start a helper that answers on a socket. It gets an empty environment, the socket as descriptor
 * 3, a file as 4, and /dev/null below these. It inherits nothing else of ours: it has its own
 * session, so that it gets no terminal's signals, and the directory "/". All signals are blocked
 * until it unblocks them. It is not our child.
 *
 * The processes share our memory until execve(2), where fork(2) would copy the page tables; unlike
 * posix_spawn(3) this makes no 128 calls for signal handlers.
 *
 * Returns 0, or -errno of execve(2), clone(2) or open(2).
 */
int program_serve(const char *path, char *const *argv, int sock, int file);
