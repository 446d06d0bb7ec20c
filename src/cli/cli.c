#include "cli/cli.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_version(FILE *out, struct argp_state *state)
{
	(void)state;
	fprintf(out, "mlrun %s %cisal -cuda -mpi -seccomp\n", PACKAGE_VERSION,
#if HAVE_ISAL
		'+'
#else
		'-'
#endif
	);
}

/* A closed standard descriptor would be given to the next file that is opened, and messages would
 * go there. */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

static int stdout_errno;

void cli_stdout_failed(int code)
{
	if (stdout_errno == 0)
		stdout_errno = code ? code : EIO;
}

/* An answer that did not arrive is a failure, found out at the latest here (as gnulib's closeout
 * does, also for what argp prints). */
static void close_stdout(void)
{
	int failed = ferror(stdout);
	struct mlr_error err;

	errno = 0;
	if (fclose(stdout) != 0)
		cli_stdout_failed(errno);
	else if (failed)
		cli_stdout_failed(EIO);
	if (stdout_errno == 0)
		return;
	mlr_fail(&err, stdout_errno, "write to stdout: %s", strerror(stdout_errno));
	_exit(cli_fail(&err));
}

void cli_init(void)
{
	open_standard_fds();
	atexit(close_stdout);
	mlr_log_init("mlrun");
	argp_err_exit_status = CLI_FAILED;
	argp_program_version_hook = print_version;
}

int cli_fail(const struct mlr_error *err)
{
	const char *hint = strstr(err->text, "\nhint: ");

	if (!hint) {
		mlr_log(MLR_ERROR, "%s", err->text);
		return CLI_FAILED;
	}
	mlr_log(MLR_ERROR, "%.*s", (int)(hint - err->text), err->text);
	fprintf(stderr, "%s\n", hint + 1);
	return CLI_FAILED;
}

/* Beside this program in the build tree; in libexec beside bin where installed, wherever the
 * tree was moved to; where configure said. */
static void try_places(const char *program, char **argv)
{
	auto_free char *self = realpath("/proc/self/exe", NULL);
	char *slash = self ? strrchr(self, '/') : NULL;

	if (slash) {
		*slash = '\0';
		auto_free char *beside = xasprintf("%s/%s", self, program);
		auto_free char *libexec = xasprintf("%s/../libexec/mlrun/%s", self, program);

		execv(beside, argv);
		execv(libexec, argv);
	}
	auto_free char *configured = xasprintf("%s/%s", PKGLIBEXECDIR, program);

	execv(configured, argv);
}

int cli_become(const char *program, char **argv)
{
	struct mlr_error err;

	try_places(program, argv);
	mlr_fail(&err, errno, "%s: cannot start '%s/%s': %s", argv[1], PKGLIBEXECDIR, program,
		strerror(errno));
	mlr_hint(&err,
		"mlrun's files were moved apart: install bin/mlrun and libexec/mlrun together");
	return cli_fail(&err);
}
