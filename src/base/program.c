#include "base/program.h"

#include "base/base.h"
#include "base/spawn.h"

#include <sched.h>

#define STACK_BYTES (32 << 10)

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

char *program_main(void)
{
	auto_free char *beside = program_path("mlrun"), *above = NULL, *self = NULL;
	char *slash;

	if (access(beside, X_OK) == 0)
		return take_ptr(&beside);
	self = realpath("/proc/self/exe", NULL);
	slash = self ? strstr(self, "/libexec/mlrun/") : NULL;
	above = xasprintf("%.*s/bin/mlrun", slash ? (int)(slash - self) : 0, self ? self : "");
	return access(above, X_OK) == 0 ? take_ptr(&above) : xstrdup("mlrun");
}

char *program_find(const char *name)
{
	auto_free char *path = xstrdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	char *at = NULL;

	for (char *dir = strtok_r(path, ":", &at); dir; dir = strtok_r(NULL, ":", &at)) {
		auto_free char *full = xasprintf("%s/%s", dir, name);

		if (*dir == '/' && access(full, X_OK) == 0)
			return take_ptr(&full);
	}
	return NULL;
}

#define LIBRARIES "LD_LIBRARY_PATH"
#define HIDDEN    "MLRUN_" LIBRARIES

static void rename_variable(const char *from, const char *to)
{
	const char *value = getenv(from);

	if (value) {
		setenv(to, value, 1);
		unsetenv(from);
	}
}

int program_become(const char *path, char *const *argv)
{
	int code;

	rename_variable(LIBRARIES, HIDDEN);
	execv(path, argv);
	code = errno;
	rename_variable(HIDDEN, LIBRARIES);
	return -code;
}

void program_take_environment(void)
{
	rename_variable(HIDDEN, LIBRARIES);
}

int program_start(const char *path, char *const *argv, char *const *envp, int *out, pid_t *pid)
{
	auto_close int from = -1, to = -1;
	struct spawn s = { .file = path, .argv = argv, .envp = envp, .flags = SPAWN_CLOSES };
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	from = pair[0];
	s.out = to = pair[1];
	TRY(spawn_start(&s, pid));
	*out = take_fd(&from);
	return 0;
}

/* Close from before waiting: a helper that writes more ends by SIGPIPE. */
static ssize_t hear(pid_t pid, int from, char *buf, size_t size, int *status)
{
	ssize_t n = file_read_full(from, buf, size);

	close(from);
	*status = spawn_wait(pid);
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

/* The server that program_serve() starts. Children that share our memory write the result. */
struct service {
	const char *path;
	char *const *argv;
	int sock, file; /* above 4 */
	char *stacks;   /* [2][STACK_BYTES] */
	int code;       /* an errno, or 0 */
};

/* vfork(2) with a stack of its own, as calls are nested: AddressSanitizer's vfork(2) would clear
 * the marks of all memory between the stacks. */
static pid_t run_apart(int (*run)(void *service), struct service *s, int stack)
{
	char *top = s->stacks + (stack + 1) * STACK_BYTES;
	pid_t pid = clone(run, top, CLONE_VM | CLONE_VFORK | SIGCHLD, s);

	if (pid < 0)
		s->code = errno;
	return pid;
}

/* In the server's process. What is not async-signal-safe would harm our memory. */
static int become_service(void *arg)
{
	struct service *s = arg;
	char *const envp[] = { NULL };

	close(0);
	if (open("/dev/null", O_RDWR) == 0 && dup2(0, 1) == 1 && dup2(0, 2) == 2 &&
		dup2(s->sock, 3) == 3 && dup2(s->file, 4) == 4 && fds_close_range(5, ~0u, 0) == 0 &&
		chdir("/") == 0)
		execve(s->path, s->argv, envp);
	s->code = errno;
	return 127;
}

/* In our child, which ends as soon as the server's process has executed its program. */
static int start_service(void *arg)
{
	setsid();
	run_apart(become_service, arg, 1);
	return 0;
}

int program_serve(const char *path, char *const *argv, int sock, int file)
{
	/* Keep clear of 0 to 4, which are the targets. */
	auto_close int high_sock = fcntl(sock, F_DUPFD_CLOEXEC, 10);
	auto_close int high_file = fcntl(file, F_DUPFD_CLOEXEC, 10);
	auto_free char *stacks = xmalloc(2 * STACK_BYTES);
	struct service s = { path, argv, high_sock, high_file, stacks, 0 };
	sigset_t all, old;
	pid_t pid;

	if (high_sock < 0 || high_file < 0)
		return -errno;
	/* A handler of ours must not run in a process that shares our memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = run_apart(start_service, &s, 0);
	/* ECHILD: SIGCHLD is ignored. */
	if (pid > 0)
		spawn_wait(pid);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -s.code;
}
