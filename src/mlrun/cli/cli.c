#include "cli/cli.h"

#include "base/proc.h"
#include "base/program.h"
#include "config.h"

#include <argp.h>
#include <jansson.h>
#include <sys/auxv.h>

/* Time to remove half a tree; a process waiting for another one's layer must not wait longer. */
#define CLEANUP_SECONDS 10

int cli_stop_signal;

static void give_up(int sig)
{
	_exit(128 + __atomic_load_n(&cli_stop_signal, __ATOMIC_RELAXED));
}

static void ask_to_stop(int sig)
{
	__atomic_store_n(&cli_stop_signal, sig, __ATOMIC_RELAXED);
	alarm(CLEANUP_SECONDS);
}

void cli_stop_catch(void)
{
	struct sigaction last = { .sa_handler = give_up };

	signal_catch_ends(ask_to_stop, (int)(SA_RESTART | SA_RESETHAND));
	sigaction(SIGALRM, &last, NULL);
}

#if HAVE_ISAL
#define HAS_ISAL '+'
#else
#define HAS_ISAL '-'
#endif
#if HAVE_SQUASHFS
#define HAS_SQUASHFS '+'
#else
#define HAS_SQUASHFS '-'
#endif
#if HAVE_SQUASHFUSE
#define HAS_SQUASHFUSE '+'
#else
#define HAS_SQUASHFUSE '-'
#endif
#if HAVE_SECCOMP
#define HAS_SECCOMP '+'
#else
#define HAS_SECCOMP '-'
#endif

static void print_version(FILE *out, struct argp_state *state)
{
	fprintf(out, "mlrun %s %cisal %csquashfs %csquashfuse %cseccomp\n", PACKAGE_VERSION,
		HAS_ISAL, HAS_SQUASHFS, HAS_SQUASHFUSE, HAS_SECCOMP);
}

static int stdout_errno;

void cli_stdout_failed(int code)
{
	if (stdout_errno == 0)
		stdout_errno = code ? code : EIO;
}

/* Report output that did not arrive, at the latest here (like gnulib's closeout), also argp's. */
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

/* Seed jansson, which would otherwise open /dev/urandom, with the kernel's 16 random bytes
 * (getauxval(3), AT_RANDOM). */
static void seed_json(void)
{
	uint64_t random[2] = { 0 };
	const void *from = (const void *)(uintptr_t)getauxval(AT_RANDOM);

	if (from)
		memcpy(random, from, sizeof(random));
	json_object_seed((size_t)(random[0] * 31 + random[1])); /* 0: jansson's own way */
}

void cli_init(void)
{
	fds_open_standard();
	program_take_environment();
	seed_json();
	atexit(close_stdout);
	mlr_log_init("mlrun");
	argp_err_exit_status = CLI_FAILED;
	argp_program_bug_address = PACKAGE_BUGREPORT;
	argp_program_version_hook = print_version;
}

int cli_fail(const struct mlr_error *err)
{
	mlr_log_error(err);
	return argp_err_exit_status;
}

int cli_become(const char *program, char **argv)
{
	auto_free char *path = program_path(program);
	struct mlr_error err;
	int r = program_become(path, argv);

	mlr_result(&err, r, "%s: cannot start '%s'", argv[1], path);
	mlr_hint(&err,
		"mlrun's files were moved apart: install bin/mlrun and libexec/mlrun together");
	return cli_fail(&err);
}
