#include "base/program.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *program_path(const char *name)
{
	auto_free char *self = realpath("/proc/self/exe", NULL);
	char *slash = self ? strrchr(self, '/') : NULL;

	if (slash) {
		*slash = '\0';
		auto_free char *beside = xasprintf("%s/%s", self, name);
		auto_free char *libexec = xasprintf("%s/../libexec/mlrun/%s", self, name);

		if (access(beside, X_OK) == 0)
			return take_ptr(&beside);
		if (access(libexec, X_OK) == 0)
			return take_ptr(&libexec);
	}
	return xasprintf("%s/%s", PKGLIBEXECDIR, name);
}

int program_start(const char *path, char *const *argv, char *const *envp, int *out, pid_t *pid)
{
	auto_close int from = -1, to = -1;
	posix_spawn_file_actions_t actions;
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	from = pair[0];
	to = pair[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to, 1);
	posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	r = posix_spawn(pid, path, &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	if (r == 0)
		*out = take_fd(&from);
	return -r;
}

/* Close from before waiting: a helper that writes more ends by SIGPIPE. */
static ssize_t hear(pid_t pid, int from, char *buf, size_t size, int *status)
{
	ssize_t n = file_read_full(from, buf, size);

	close(from);
	*status = -1;
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return n;
}

/* We may have inherited an ignored SIGCHLD, which would lose the status. */
ssize_t program_ask(const char *path, char *const *argv, char *buf, size_t size, int *status)
{
	char *const envp[] = { NULL };
	struct sigaction usual = { .sa_handler = SIG_DFL }, old;
	ssize_t n = 0;
	pid_t pid;
	int r, from;

	sigaction(SIGCHLD, &usual, &old);
	r = program_start(path, argv, envp, &from, &pid);
	if (r == 0)
		n = hear(pid, from, buf, size, status);
	sigaction(SIGCHLD, &old, NULL);
	return r < 0 ? r : n;
}

int program_serve(const char *path, char *const *argv, int sock, int file, pid_t *pid)
{
	/* Keep clear of 0 to 4, which are the targets. */
	auto_close int high_sock = fcntl(sock, F_DUPFD_CLOEXEC, 10);
	auto_close int high_file = fcntl(file, F_DUPFD_CLOEXEC, 10);
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	if (high_sock < 0 || high_file < 0)
		return -errno;
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, 0, 1);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, 0, 2);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, high_sock, 3);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, high_file, 4);
	r = r ? r : posix_spawn_file_actions_addclosefrom_np(&actions, 5);
	r = r ? r : posix_spawn_file_actions_addchdir_np(&actions, "/");
	r = r ? r : posix_spawn(pid, path, &actions, &attr, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
}
