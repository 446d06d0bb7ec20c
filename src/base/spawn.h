/* Starts programs by posix_spawn(3), which copies no page tables as fork(2) does. */
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

/* Kinds of standard streams: one of these, or a descriptor above 0. */
enum { SPAWN_OURS = 0, SPAWN_NOTHING = -1 /* /dev/null */ };

enum {
	SPAWN_CLOSES = 1,   /* no descriptor from 3 on is inherited */
	SPAWN_UNBLOCKS = 2, /* no signal is blocked */
	SPAWN_USUAL = 4,    /* SIGPIPE and SIGXFSZ end it, even if we ignore them */
};

struct spawn {
	const char *file; /* a path, or a name to look for in PATH */
	char *const *argv;
	char *const *envp; /* NULL: our environment */
	int in, out, err;
	unsigned flags;
};

/* Returns 0 or -errno; the caller waits for pid. */
int spawn_start(const struct spawn *s, pid_t *pid);

/* Wait for a child, also if signals come. Returns waitpid(2)'s status or -errno. */
int spawn_wait(pid_t pid);

/* The same, unless *cancel, which may be NULL, becomes other than 0: then the child gets SIGTERM.
 * Returns its exit status, 128 + the signal that ended it, -ECANCELED, or -errno. */
int spawn_wait_unless(pid_t pid, const int *cancel);
int spawn_is_cancelled(const int *cancel);

/* What a shell makes of waitpid(2)'s status: the exit status, or 128 and the signal's number. */
static inline int spawn_exit(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
