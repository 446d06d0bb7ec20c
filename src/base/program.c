#include "base/program.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
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

static int start(const char *path, char *const *argv, int out, pid_t *ret)
{
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	r = posix_spawn(ret, path, &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

ssize_t program_ask(const char *path, char *const *argv, char *buf, size_t size, int *status)
{
	auto_close int from = -1, to = -1;
	int pair[2], r;
	ssize_t n;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	from = pair[0];
	to = pair[1];
	r = start(path, argv, to, &pid);
	if (r < 0)
		return r;
	close(take_fd(&to));
	n = file_read_full(from, buf, size);
	close(take_fd(&from)); /* one that has more to say ends by SIGPIPE */
	*status = 0;
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return n;
}
