#include "base/spawn.h"

#include "base/base.h"

#include <spawn.h>

static void set_stream(posix_spawn_file_actions_t *files, int stream, int what)
{
	if (what == SPAWN_NOTHING)
		posix_spawn_file_actions_addopen(files, stream, "/dev/null",
			stream == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
	else if (what != SPAWN_OURS)
		posix_spawn_file_actions_adddup2(files, what, stream);
}

static void set_signals(posix_spawnattr_t *attr, unsigned flags)
{
	sigset_t none, usual;

	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGXFSZ);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setsigdefault(attr, &usual);
	posix_spawnattr_setflags(attr,
		(short)((flags & SPAWN_UNBLOCKS ? POSIX_SPAWN_SETSIGMASK : 0) |
			(flags & SPAWN_USUAL ? POSIX_SPAWN_SETSIGDEF : 0)));
}

int spawn_start(const struct spawn *s, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int r;

	posix_spawn_file_actions_init(&files);
	set_stream(&files, STDIN_FILENO, s->in);
	set_stream(&files, STDOUT_FILENO, s->out);
	set_stream(&files, STDERR_FILENO, s->err);
	if (s->flags & SPAWN_CLOSES)
		posix_spawn_file_actions_addclosefrom_np(&files, 3);
	posix_spawnattr_init(&attr);
	set_signals(&attr, s->flags);
	r = posix_spawnp(pid, s->file, &files, &attr, s->argv, s->envp ? s->envp : environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

int spawn_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

int spawn_is_cancelled(const int *cancel)
{
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

int spawn_wait_unless(pid_t pid, const int *cancel)
{
	int status, was_told = 0;
	pid_t got;

	while ((got = waitpid(pid, &status, cancel ? WNOHANG : 0)) != pid) {
		if (got < 0 && errno != EINTR)
			return -errno;
		if (spawn_is_cancelled(cancel) && !was_told++)
			kill(pid, SIGTERM);
		if (cancel)
			mlr_sleep_ms(20);
	}
	if (spawn_is_cancelled(cancel))
		return -ECANCELED;
	return spawn_exit(status);
}
