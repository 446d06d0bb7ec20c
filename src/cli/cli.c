#include "cli/cli.h"

#include "base/log.h"
#include "config.h"

#include <argp.h>
#include <fcntl.h>
#include <stdio.h>
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

void cli_init(void)
{
	open_standard_fds();
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
