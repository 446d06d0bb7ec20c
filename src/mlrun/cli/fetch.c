#include "cli/fetch.h"

#include "cli/cli.h"

#include "base/cleanup.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/program.h"
#include "base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int cli_fetch_can(const char *image)
{
	return strncmp(image, "rootfs:", 7) != 0 && strncmp(image, "squashfs:", 9) != 0;
}

/* In the child. Of what the command is to inherit it has nothing: neither input nor descriptors. */
static void become_pull(const char *path, char *const *argv, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY);

	/* Whoever ends mlrun ends what it waits for. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(CLI_FAILED);
	fds_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	execv(path, argv);
	mlr_log(MLR_ERROR, "pull: cannot start '%s': %s", path, strerror(errno));
	_exit(CLI_FAILED);
}

/* As system(3): ^C is the child's to answer, which leaves a good store. */
static int wait_for(pid_t child)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, was_int, was_quit;
	int status, r;

	sigaction(SIGINT, &ignore, &was_int);
	sigaction(SIGQUIT, &ignore, &was_quit);
	do
		r = waitpid(child, &status, 0);
	while (r < 0 && errno == EINTR);
	sigaction(SIGINT, &was_int, NULL);
	sigaction(SIGQUIT, &was_quit, NULL);
	if (r < 0)
		return CLI_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int cli_fetch(const char *image, const char *store, int quiet)
{
	auto_free char *path = program_path("mlrun-pull");
	auto_strv struct strv argv = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	pid_t self = getpid(), child;

	strv_add(&argv, "mlrun");
	strv_add(&argv, "pull");
	if (store)
		strv_addf(&argv, "--store=%s", store);
	if (mlr_log_level >= MLR_DEBUG)
		strv_add(&argv, "--verbose");
	else if (quiet || mlr_log_level < MLR_INFO)
		strv_add(&argv, "--quiet");
	strv_add(&argv, "--");
	strv_add(&argv, image);

	child = fork();
	if (child == 0)
		become_pull(path, strv_argv(&argv), self);
	if (child < 0) {
		mlr_fail_errno(&err, "pull '%s': fork", image);
		return cli_fail(&err);
	}
	return wait_for(child);
}
