/*
 * Guards against CVE-2019-5736: where the caller may write mlrun's own file, a hostile image must
 * not get hold of it. The command's file can be a link to /proc/self/exe, or become one at any
 * moment, and then the host's mlrun would run as a program of the container: /proc/PID/exe leads
 * any other process there to the file, which it could overwrite. So mlrun does not execute the
 * command itself: it becomes a small program in sealed memory (launcher.c), which does.
 */
#ifndef MLR_RUNTIME_ITSELF_H
#define MLR_RUNTIME_ITSELF_H

#include "base/base.h"

/* Look outside, before the container is entered, whether the caller can write mlrun's file, and
 * make the launcher if so. Returns 0 or -errno. */
int itself_prepare(struct mlr_error *err);

/* Texts that the launcher prints after a failed execve(2), each with its newline; but after the
 * last one it prints the errno value. */
struct itself_texts {
	const char *enoexec;
	const char *enoent;
	const char *eacces;
	const char *other;
};

/* Must commands start by itself_execve()? */
int itself_has_launcher(void);

/* Execute a program through the launcher. Returns -errno if the launcher itself did not start; if
 * the program does not, the text is printed and the exit status is 126. */
int itself_execve(
	const char *path, char *const *argv, char *const *envp, const struct itself_texts *texts);

#endif
